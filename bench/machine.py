"""Facts about the machine of the measurements."""

import os
import platform
from datetime import UTC, datetime

import msgspec

import holdfast
from bench.places import bench_folder


def facts() -> dict[str, str]:
    return {
        "date": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "cores": f"{len(os.sched_getaffinity(0))} ({_processor()})",
        "memory": f"{os.sysconf('SC_PAGE_SIZE') * os.sysconf('SC_PHYS_PAGES') / 2**30:.0f} GiB",
        "Python": f"{platform.python_implementation()} {platform.python_version()}, msgspec {msgspec.__version__}",
        "kernel": f"{platform.system()} {platform.release()}",
        "filesystem": _filesystem(bench_folder()),
        "load": f"{os.getloadavg()[2]:.1f} processes ready to run, over the last 15 minutes",
        "Holdfast": holdfast.__version__,
    }


def _processor() -> str:
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        names = [line.partition(":")[2].strip() for line in file if line.startswith("model name")]
    return names[0] if names else platform.machine()


def _filesystem(path: str) -> str:
    """The type and options of the mount that holds `path`."""
    real = os.path.realpath(path)
    best, description = "", "unknown"
    with open("/proc/mounts", encoding="utf-8") as file:
        for line in file:
            device, place, kind, options = line.split()[:4]
            inside = real == place or real.startswith(place.rstrip("/") + "/")
            if inside and len(place) >= len(best):
                best, description = place, f"{kind} on {device} ({options})"
    return description
