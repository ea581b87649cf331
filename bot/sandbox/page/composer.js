// The command box: keys, picks and sending. Its text is the only state; it is parsed by
// command_line.js, and the list above it is drawn by assist.js.

import { createAssist } from "./assist.js";
import { createChoices } from "./choices.js";
import { check, nearest, parseLine, segmentAt, withOption, withQuoted, withoutOption, withValue } from "./command_line.js";
import { OptionType, commandForFiles, commandForWords, fileOptions } from "./commands.js";
import { byId, h, icon } from "./dom.js";
import { paint } from "./mirror.js";
import { createUploads } from "./uploads.js";

const CHOOSE_FILE = { label: "Choose a file …" };

/**
 * `send(command, values)` and `say(words)` resolve when the sandbox has accepted it; they reject with an
 * ApiError.
 */
export function createComposer(model, send, say) {
  const form = byId("composer");
  const box = byId("box");
  const hint = byId("hint");
  const history = [];
  let recalled = 0;
  let active = 0;
  let moved = false; // the arrow keys chose a row, so Enter takes it
  let closed = false; // Escape closed the panel until the text changes
  let rows = []; // what the arrow keys walk through
  let offline = false; // the hint says that the sandbox does not answer

  const assist = createAssist({ command: pickCommand, option: pickOption, choice: pickChoice });
  const choices = createChoices(model, refresh);
  const uploads = createUploads({
    limit: () => model.uploadLimit,
    place: placeForFiles,
    refuse: object,
    settled: fileSettled,
  });
  const attach = byId("attach");
  attach.append(icon("attach"));
  attach.addEventListener("click", () => uploads.choose());

  const lineNow = () => parseLine(box.value, model.commands);
  const checkNow = (line) =>
    check(line, model.people, choices.knownFor(line.command), uploads.of(line.command));

  function refresh() {
    const line = lineNow();
    if (line.kind === "empty" || line.kind === "plain") uploads.clear();
    attach.hidden = commandForFiles(model.commands) === null;
    const checked = line.kind === "command" ? checkNow(line) : null;
    paint(byId("mirror"), box.value, line, checked?.problems ?? []);
    rows = [];
    if (closed || (line.kind !== "naming" && line.kind !== "command")) assist.hide();
    else if (line.kind === "naming") showCommands(line);
    else showOptions(line, checked);
  }

  function showCommands(line) {
    choices.forget();
    rows = line.matches;
    active = Math.min(Math.max(active, 0), Math.max(rows.length - 1, 0));
    assist.showCommands(rows, active);
  }

  function showOptions(line, { values, problems }) {
    const segment = segmentAt(line, box.selectionStart);
    const current = segment?.option ?? null;
    const offered = offer(line, segment, values);
    rows = offered.choices;
    const narrowed = current?.choices.length > 0 && segment.raw !== "";
    if (!moved) active = narrowed || rows[0] === CHOOSE_FILE ? 0 : -1;
    active = Math.min(active, rows.length - 1);
    // An incomplete value gets help and no error.
    const wrong = problems.filter((one) => !one.missing && !(one.empty && one.option === current));
    const problem = wrong.find((one) => one.option === current)?.sentence;
    const chips = line.command.options.map((option) => chipOf(option, line, { values, wrong, current }));
    assist.showOptions({
      command: line.command,
      chips,
      current,
      problem: rows.length > 0 ? null : problem,
      choices: rows,
      active,
      note: offered.note,
    });
  }

  function offer(line, segment, values) {
    if (!segment?.option) return { choices: [], note: "" };
    if (segment.option.type === OptionType.ATTACHMENT) return { choices: [CHOOSE_FILE], note: "" };
    return choices.offer(line.command, segment.option, segment.raw, values);
  }

  function chipOf(option, line, { values, wrong, current }) {
    const file = values[option.name] instanceof File ? values[option.name].name : "";
    const raw = line.segments.find((one) => one.option === option)?.raw || file;
    const bad = wrong.some((one) => one.option === option);
    const state = [
      bad ? "bad" : raw ? "filled" : option.required ? "missing" : "",
      option === current ? "current" : "",
    ];
    return { option, raw, state: state.filter(Boolean).join(" ") };
  }

  function setText(text, caret = text.length) {
    box.value = text;
    box.focus();
    box.setSelectionRange(caret, caret);
    onText();
  }

  function onText() {
    [active, moved, closed] = [0, false, false];
    hint.hidden = true;
    refresh();
  }

  function pickCommand(command) {
    setText(`/${command.label} `);
  }

  function pickOption(option) {
    if (option.type === OptionType.ATTACHMENT) return uploads.choose(option);
    const { text, caret } = withOption(box.value, lineNow(), option);
    setText(text, caret);
  }

  function pickChoice(choice) {
    const segment = segmentAt(lineNow(), box.selectionStart);
    if (choice === CHOOSE_FILE) return uploads.choose(segment.option);
    const { text, caret } = withValue(box.value, segment, choice.label);
    return setText(text, caret);
  }

  // Files without a command go to the command being typed, or to one that takes files.
  function placeForFiles() {
    const line = lineNow();
    if (line.kind === "command") {
      const option = segmentAt(line, box.selectionStart)?.option ?? null;
      return { command: line.command, option: option?.type === OptionType.ATTACHMENT ? option : null };
    }
    const command = line.exact ?? commandForFiles(line.kind === "naming" ? line.matches : model.commands);
    if (command === null) return null;
    setText(`/${command.label} ${line.kind === "plain" ? box.value.trim() : ""}`);
    return { command, option: null };
  }

  // The file is shown above the box, so its option's name is removed from the text.
  function fileSettled(option) {
    const line = lineNow();
    const { text, caret } = line.kind === "command" ? withoutOption(box.value, line, option) : {};
    if (text !== undefined && text !== box.value) return setText(text, caret);
    return setText(box.value, box.selectionStart);
  }

  function pickActive() {
    const row = rows[Math.max(active, 0)];
    if (lineNow().kind === "naming") pickCommand(row);
    else pickChoice(row);
  }

  function advise(...children) {
    hint.replaceChildren(...children);
    hint.className = "";
    hint.hidden = false;
  }

  function object(sentence, button) {
    advise(sentence, ...(button ? [" ", button] : []));
    hint.className = "bad";
    offline = false;
  }

  function fail(error) {
    object(error.message);
    offline = error.status === 0;
  }

  /** The page is connected again: a sentence that it was not is out of date. */
  function online() {
    if (offline) hint.hidden = true;
    offline = false;
    refresh();
  }

  async function submit() {
    const line = lineNow();
    if (line.kind === "plain") return suggestCommand();
    if (line.kind === "naming") return submitName(line);
    if (line.kind !== "command" || box.readOnly) return;
    const { values, problems } = checkNow(line);
    if (problems.length > 0) return refuse(line, problems);
    const sent = box.value.trim();
    box.readOnly = true;
    try {
      await send(line.command, values);
      history.push(sent);
      recalled = history.length;
      setText("");
    } catch (error) {
      fail(error);
    } finally {
      box.readOnly = false;
    }
  }

  function submitName(line) {
    if (line.exact && !line.exact.options.some((option) => option.required)) {
      setText(`/${line.exact.label} `);
      return submit();
    }
    if (line.matches.length > 0) return pickActive();
    const [word] = box.value.trim().slice(1).split(/\s/);
    const near = nearest(word, model.commands);
    const help = near ? `Did you mean /${near}?` : "Type / to see those there are.";
    return object(`There is no command called /${word}. ${help}`);
  }

  function refuse(line, problems) {
    const [{ option }] = problems;
    const file = problems.find((one) => one.missing && one.option.type === OptionType.ATTACHMENT)?.option;
    if (option && option.type !== OptionType.ATTACHMENT) pickOption(option);
    object(problems.map((one) => one.sentence).join(" "), file && chooser(file));
  }

  function chooser(option) {
    return textButton("Choose a file", () => uploads.choose(option));
  }

  function textButton(text, act) {
    return h("button", { type: "button", class: "text-button", text, on: { click: act } });
  }

  // Plain text: the bot is used by commands, so offer the one that takes text first.
  function suggestCommand() {
    const words = box.value.trim();
    const command = commandForWords(model.commands);
    const asCommand = () => {
      setText(`/${command.label} ${words}`);
      submit();
    };
    advise(
      "In this sandbox people talk to the bot by commands: type / to see them. ",
      command ? textButton(`Send it as /${command.label}`, asCommand) : "",
      " ",
      textButton("Send it as a message", () => speak(words)),
    );
  }

  async function speak(words) {
    try {
      await say(words);
      setText("");
    } catch (error) {
      object(error.message);
    }
  }

  function recall(step) {
    recalled = Math.min(Math.max(recalled + step, 0), history.length);
    setText(history[recalled] ?? "");
    closed = true;
    refresh();
  }

  function move(step) {
    moved = true;
    const start = active < 0 && step < 0 ? 0 : active;
    active = (start + step + rows.length) % rows.length;
    refresh();
  }

  function leave() {
    if (assist.isOpen) {
      closed = true;
      choices.forget();
      assist.hide();
    } else if (box.value !== "") setText("");
    else box.blur();
    hint.hidden = true;
  }

  function onKey(event) {
    if (event.isComposing || event.altKey) return; // the key belongs to the input method (한글, 漢字)
    const listed = assist.isOpen && rows.length > 0;
    const takes = listed && (moved || (lineNow().kind === "command" && active >= 0));
    const step = { ArrowUp: -1, ArrowDown: 1 }[event.key];
    if (step && listed) move(step);
    else if (step && (box.value === "" || history.includes(box.value))) recall(step);
    else if (event.key === "Tab" && !event.shiftKey && listed) pickActive();
    else if (event.key === "Enter" && !event.shiftKey) takes ? pickActive() : submit();
    else if (event.key === "Escape") leave();
    else return;
    event.preventDefault();
  }

  function onPaste(event) {
    const words = event.clipboardData.getData("text/plain");
    const quoted = withQuoted(box.value, box.selectionStart, box.selectionEnd, words, model.commands);
    if (quoted === null) return;
    event.preventDefault();
    setText(quoted.text, quoted.caret);
  }

  box.addEventListener("keydown", onKey);
  box.addEventListener("paste", onPaste);
  box.addEventListener("input", onText);
  box.addEventListener("click", refresh);
  box.addEventListener("keyup", (event) => {
    if (["ArrowLeft", "ArrowRight", "Home", "End"].includes(event.key)) refresh();
  });
  model.on("channel", online); // another one has other commands
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    submit();
  });

  return { setText, refresh, online, fail };
}
