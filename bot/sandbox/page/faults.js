// "Break things": injects faults of Discord, and shows the bot's violations of Discord's rules.

import { fetchLog, misbehave } from "./api.js";
import { byId, h, icon, iconButton } from "./dom.js";

const NUMBERS = [
  ["rest_429", "Refuse the next requests with 429", 0, 100],
  ["rest_5xx", "Fail the next requests with 5xx", 0, 100],
  ["lose_answers", "Do the next requests, but answer 502", 0, 100],
  ["drop_requests", "Cut the connection of the next requests before they are done", 0, 100],
  ["drop_answers", "Do the next requests, then cut their connection", 0, 100],
  ["hang_answers", "Do the next requests, and never answer", 0, 100],
  ["pages", "Answer the next requests with a page, as Cloudflare does", 0, 100],
  ["no_session_starts", "Leave no session start for so many seconds", 0, 86400],
  ["refuse_intents", "Refuse the next logins at the gateway", 0, 100],
  ["slow_ms", "Delay every answer, in ms", 0, 60000],
];
const DEEDS = [
  ["drop_gateway", "Drop the gateway"],
  ["reconnect", "Ask to reconnect"],
  ["invalidate_session", "Invalidate the session"],
  ["expire_tokens", "Expire all interaction tokens"],
  ["expire_attachments", "Expire all addresses of files"],
];
const REFRESH = 3000;

export function createFaults() {
  const panel = byId("faults");
  const toggle = byId("faults-toggle");
  toggle.append(icon("sliders"));
  const said = h("p", { class: "dim", role: "status" });
  const log = h("ol", { class: "violations" });
  let timer = null;

  const numbers = NUMBERS.map(([key, label, min, max]) => {
    const input = h("input", {
      type: "number",
      id: `switch-${key}`,
      min,
      max,
      value: 0,
      inputmode: "numeric",
    });
    return {
      key,
      input,
      element: h("div", { class: "switch" }, h("label", { for: input.id, text: label }), input),
    };
  });
  const form = h(
    "form",
    {},
    numbers.map((one) => one.element),
    h("button", { type: "submit", class: "button secondary", text: "Apply" }),
  );
  const deeds = DEEDS.map(([key, label]) =>
    h("button", {
      type: "button",
      class: "button secondary",
      text: label,
      on: { click: () => tell({ [key]: true }, label) },
    }),
  );

  panel.append(
    h(
      "header",
      {},
      h("h2", { text: "Break things" }),
      iconButton("close", "Close", () => show(false)),
    ),
    h("p", { class: "dim", text: "What does the bot do when Discord fails? Nothing here lasts." }),
    form,
    h("div", { class: "row" }, deeds),
    said,
    h("h3", { text: "Rules the bot has broken" }),
    log,
  );

  form.addEventListener("submit", (event) => {
    event.preventDefault();
    tell(Object.fromEntries(numbers.map(({ key, input }) => [key, Number(input.value)])), "Switches set");
  });
  toggle.addEventListener("click", () => show(panel.hidden));
  panel.addEventListener("keydown", (event) => event.key === "Escape" && show(false));

  async function tell(switches, what) {
    try {
      await misbehave(switches);
      said.textContent = `Done: ${what}.`;
    } catch (error) {
      said.textContent = error.message;
    }
  }

  async function readLog() {
    try {
      const sentences = await fetchLog();
      log.replaceChildren(...sentences.map((sentence) => h("li", { text: sentence })));
      if (sentences.length === 0) log.replaceChildren(h("li", { class: "none", text: "None so far." }));
    } catch (error) {
      log.replaceChildren(h("li", { text: error.message }));
    }
  }

  function show(shown) {
    panel.hidden = !shown;
    document.body.classList.toggle("faults-open", shown);
    toggle.setAttribute("aria-expanded", String(shown));
    clearInterval(timer);
    if (!shown) return toggle.focus();
    readLog();
    timer = setInterval(readLog, REFRESH);
    return panel.querySelector("button").focus();
  }
}
