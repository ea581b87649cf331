// Single keys: an element with data-key="a" is pressed, or gets the focus, by the key a. Holding v shows what is blurred.
"use strict";
(() => {
  const OFF = "keys-off";
  const off = () => localStorage.getItem(OFF) === "yes";
  const box = document.getElementById("keys");
  if (box) {
    box.checked = !off();
    box.addEventListener("change", () => localStorage.setItem(OFF, box.checked ? "no" : "yes"));
  }
  const veil = () => document.body.classList.remove("revealed");
  const typing = (target) => target.closest("textarea, select, input:not([type=checkbox])") !== null;

  document.addEventListener("keydown", (event) => {
    if (off() || event.ctrlKey || event.metaKey || event.altKey || event.isComposing) return;
    if (typing(event.target)) {
      if (event.key === "Escape") event.target.blur();
      return;
    }
    if (event.key === "v") document.body.classList.add("revealed");
    const found = document.querySelector(`[data-key="${CSS.escape(event.key)}"]`);
    if (!found || event.repeat) return;
    event.preventDefault();
    if (found.matches("textarea")) found.focus();
    else found.click();
  });
  document.addEventListener("keyup", (event) => event.key === "v" && veil());
  window.addEventListener("blur", veil);
})();
