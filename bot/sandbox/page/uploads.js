// The files of a command: chosen, dropped or pasted, and shown until they are sent or
// removed. Each file belongs to one option, which the typed line determines.

import { fileOptions } from "./commands.js";
import { byId, h, icon, iconButton } from "./dom.js";
import { accepted, takes } from "./file_types.js";
import { fileSize } from "./media.js";

/**
 * `host`: {limit() in bytes, place() → {command, option | null} or null, refuse(sentence),
 * settled(option)}; `place` makes the line a command that takes files, and `settled` is called for each file
 * that was added or removed.
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
    picker.accept = accepted(option?.fileTypes ?? []);
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

  // The option of a file without one: the option at the caret, else the first option without a file,
  // required options first. A single option replaces its file.
  function free(command, current) {
    const options = fileOptions(command);
    if (options.length === 1) return options[0];
    const taken = (option) => owner === command.name && held.has(option.name);
    return [current, ...options].find((one) => one !== null && !taken(one)) ?? null;
  }

  async function hold(command, option, file) {
    if (!takes(option.fileTypes, file.name)) {
      host.refuse(`${file.name} is not of a type that ${option.label} takes: ${option.fileTypes.join(", ")}.`);
      return false;
    }
    if (file.size > host.limit()) {
      host.refuse(`${file.name} has ${fileSize(file.size)}, a file may have ${fileSize(host.limit())}.`);
      return false;
    }
    // Read now: this fails for a folder, and the file is sent even if it changes on disk.
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
    /** The files of `command`, by option; files of other commands are dropped. */
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

// Anywhere on the page, unless a form is open.
const isCovered = () => document.querySelector("dialog[open]") !== null;

function catchPastes(add) {
  document.addEventListener("paste", (event) => {
    const { files, types } = event.clipboardData;
    // Office programs add a picture of the copied text: in this case the text is pasted.
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
