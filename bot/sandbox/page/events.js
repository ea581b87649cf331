// The event stream of the sandbox: a WebSocket that reconnects by itself, with a longer wait
// after each failure, and reports every connection and loss.

const FIRST_WAIT = 300;
const LONGEST_WAIT = 5000;

/**
 * Listen to one member's events until the returned function is called.
 * `onUp()` is called at each connection: what happened before it must be fetched.
 */
export function listen(member, { onEvent, onUp, onDown }) {
  let socket = null;
  let timer = null;
  let failures = 0;
  let stopped = false;

  function connect() {
    const scheme = location.protocol === "https:" ? "wss:" : "ws:";
    socket = new WebSocket(`${scheme}//${location.host}/sandbox/events?member=${encodeURIComponent(member)}`);
    socket.addEventListener("open", () => {
      if (stopped) return;
      failures = 0;
      onUp();
    });
    socket.addEventListener("message", (frame) => {
      if (stopped) return;
      const event = JSON.parse(frame.data);
      onEvent(event.type, event.data);
    });
    socket.addEventListener("close", () => {
      if (stopped) return;
      onDown();
      timer = setTimeout(connect, Math.min(LONGEST_WAIT, FIRST_WAIT * 2 ** failures));
      failures += 1;
    });
  }

  connect();
  return () => {
    stopped = true;
    clearTimeout(timer);
    socket.close();
  };
}
