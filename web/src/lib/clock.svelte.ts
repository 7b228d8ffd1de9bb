// The time, for ages such as "3 min ago": one timer for the whole page, and none in a hidden tab.

class Clock {
  now = $state(Date.now());

  constructor() {
    setInterval(() => {
      if (document.visibilityState === "visible") this.now = Date.now();
    }, 15_000);
    document.addEventListener("visibilitychange", () => (this.now = Date.now()));
  }
}

export const clock = new Clock();
