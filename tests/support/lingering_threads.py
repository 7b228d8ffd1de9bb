"""A program of which all but its first thread go on."""

FIRST_THREAD_LEAVES = """
import ctypes, os, threading, time

def go_on():
    while True:
        with open(f"/proc/self/task/{os.getpid()}/stat") as file:
            if file.read().rpartition(")")[2].split()[0] == "Z":
                break
    print(flush=True)
    time.sleep(600)

threading.Thread(target=go_on, daemon=True).start()
ctypes.CDLL(None).pthread_exit(None)
"""  # says so when it left
