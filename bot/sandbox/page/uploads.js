// The files that go with a command: chosen, dropped or pasted, and shown until they are sent or taken
// out again. Each belongs to one option; which one is settled by the line that is being typed.

import { fileOptions } from "./commands.js";
import { byId, h, icon, iconButton } from "./dom.js";
import { fileSize } from "./media.js";

/**
 * `host`: {limit() in bytes, place() → {command, option | null} or null, refuse(sentence),
 * settled(option)}, where `place` makes the line one that takes files and `settled` hears of each file
 * that came or went.
 */
export function createUploads(host) {
  const picker = byId("picker");
  const tray = byId("files");
  const live = byId("live");
  const held = new Map(); // {option, file, url} by the option's name
  let owner = null; // the name of the command they go with
  let wanted = null; // the option that the picker was opened for

  function choose(option = null) {
    wanted = option;
    picker.value = ""; // choosing the same file again is a change too
    picker.multiple = option === null;
    picker.click();
  }

  async function add(files, option = null) {
    if (files.length === 0) return;
    const place = host.place();
    if (place === null) return host.refuse("There is no such command that takes a file.");
    const { command } = place;
    if (fileOptions(command).length === 0) return host.refuse(`/${command.label} takes no file.`);
    for (const file of files) {
      const target = option ?? free(command, place.option);
      option = null;
      if (target === null) {
        return host.refuse(`/${command.label} takes no more files: ${file.name} is left out.`);
      }
      if (!(await hold(command, target, file))) return;
    }
  }

  // The option that a file without one goes to: where the caret is, else the first that has none yet,
  // what is required before the rest. A single option changes its file.
  function free(command, current) {
    const options = fileOptions(command);
    if (options.length === 1) return options[0];
    const taken = (option) => owner === command.name && held.has(option.name);
    return [current, ...options].find((one) => one !== null && !taken(one)) ?? null;
  }

  async function hold(command, option, file) {
    if (file.size > host.limit()) {
      host.refuse(`${file.name} has ${fileSize(file.size)}, a file may have ${fileSize(host.limit())}.`);
      return false;
    }
    // Read now: a folder cannot be, and what is chosen is sent even if the disk changes meanwhile.
    const data = await file.arrayBuffer().catch(() => null);
    if (data === null) {
      host.refuse(`${file.name} cannot be read. Is it a folder?`);
      return false;
    }
    if (owner !== command.name) clear();
    owner = command.name;
    release(option.name);
    const kept = new File([data], file.name, { type: file.type });
    held.set(option.name, { option, file: kept, url: URL.createObjectURL(kept) });
    live.textContent = `${file.name} goes with ${option.label}.`;
    render();
    host.settled(option);
    return true;
  }

  function release(name) {
    const old = held.get(name);
    if (old) URL.revokeObjectURL(old.url);
    held.delete(name);
  }

  function clear() {
    for (const name of [...held.keys()]) release(name);
    owner = null;
    render();
  }

  function takeOut(option) {
    const { file } = held.get(option.name);
    release(option.name);
    live.textContent = `${file.name} is taken out.`;
    render();
    host.settled(option);
  }

  function render() {
    tray.replaceChildren(...[...held.values()].map((one) => card(one, () => takeOut(one.option))));
    tray.hidden = held.size === 0;
  }

  picker.addEventListener("change", () => add([...picker.files], wanted));
  catchPastes(add);
  catchDrops(add);

  return {
    choose,
    clear,
    /** The files that go with `command`, by option; those of any other command are let go. */
    of(command) {
      if (owner !== null && owner !== command.name) clear();
      const given = fileOptions(command).filter((option) => held.has(option.name));
      return new Map(given.map(({ name }) => [name, held.get(name).file]));
    },
  };
}

function card({ option, file, url }, takeOut) {
  const facts = h("span", { class: "dim", text: fileSize(file.size) });
  const preview = h("span", { class: "upload-preview" }, icon("file"));
  if (file.type.startsWith("image/")) {
    const picture = h("img", { src: url, alt: "" });
    picture.addEventListener("load", () => {
      preview.replaceChildren(picture);
      facts.textContent = `${picture.naturalWidth} × ${picture.naturalHeight} · ${fileSize(file.size)}`;
    });
  }
  return h(
    "li",
    { class: "upload" },
    preview,
    h(
      "span",
      { class: "upload-words" },
      h("b", { text: option.label }),
      h("span", { class: "upload-name", text: file.name, title: file.name }),
      facts,
    ),
    iconButton("close", `Take ${file.name} out of ${option.label}`, takeOut),
  );
}

// Anywhere on the page, as long as no form lies over it.
const isCovered = () => document.querySelector("dialog[open]") !== null;

function catchPastes(add) {
  document.addEventListener("paste", (event) => {
    const { files, types } = event.clipboardData;
    // Office programs add a picture of the text that one has copied: there the text is meant.
    const isText = types.includes("text/html") && types.includes("text/plain");
    if (files.length === 0 || isText || isCovered()) return;
    event.preventDefault();
    add([...files]);
  });
}

function catchDrops(add) {
  const mark = (shown) => document.body.classList.toggle("dropping", shown);
  const holdsFiles = (event) => event.dataTransfer?.types.includes("Files");
  document.addEventListener("dragover", (event) => {
    if (!holdsFiles(event)) return;
    event.preventDefault();
    event.dataTransfer.dropEffect = isCovered() ? "none" : "copy";
    mark(!isCovered());
  });
  document.addEventListener("dragleave", (event) => event.relatedTarget === null && mark(false));
  document.addEventListener("drop", (event) => {
    mark(false);
    if (!holdsFiles(event)) return;
    event.preventDefault(); // the browser would open the file in the page's place
    if (!isCovered()) add([...event.dataTransfer.files]);
  });
}
