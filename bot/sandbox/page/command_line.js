// The command box's text as the only state: its parsing, the segment at the caret,
// and the edits of picking a command, an option or a value. Pure: text in, data out.
//
//   /imagine a red heart variants: 4
//   └ command  └ default option    └ named option

import { OptionType, defaultOption } from "./commands.js";
import { readValue } from "./option_values.js";

const escaped = (text) => text.replace(/[.*+?^${}()|[\]\\]/g, "\\$&");
const anyOf = (names) => `(?:${names.map(escaped).join("|")})`;

// A value in one quotation mark on each side, or in the same three or more where it has such marks itself.
const QUOTED = `("{3,}|")(?!")((?:(?!\\1)[^])*)\\1`;

/**
 * Read the text: {kind: "empty" | "plain" | "naming" | "command"}. "naming" carries `query` and the
 * `matches`; "command" carries `command`, `segments` and, through `check`, values and problems.
 */
export function parseLine(text, commands) {
  if (text.trim() === "") return { kind: "empty" };
  if (!text.startsWith("/")) return { kind: "plain" };
  const found = findCommand(text, commands);
  if (found) return { kind: "command", ...found, segments: segmentsOf(text, found.nameEnd, found.command) };
  const query = text.slice(1).trim().toLowerCase();
  const matches = commands.filter((c) =>
    [c.label, c.name].some((name) => name.toLowerCase().startsWith(query)),
  );
  const exact = matches.find((c) => [c.label, c.name].some((name) => name.toLowerCase() === query)) ?? null;
  return { kind: "naming", query, matches, exact };
}

const MOST_WRONG = 2; // letters

/** The first word of the command that is spelled most nearly like `word`; "" where none is near. */
export function nearest(word, commands) {
  const names = [...new Set(commands.flatMap((c) => [c.label, c.name].map((name) => name.split(" ")[0])))];
  const distances = names.map((name) => [editDistance(word.toLowerCase(), name.toLowerCase()), name]);
  const [distance, name] = distances.sort(([a], [b]) => a - b)[0] ?? [Infinity];
  return distance <= Math.min(MOST_WRONG, word.length / 2) ? name : "";
}

// Levenshtein's distance, row by row.
function editDistance(from, to) {
  let row = [...to, ""].map((_, i) => i);
  [...from].forEach((letter, i) => {
    const next = [i + 1];
    [...to].forEach((other, j) =>
      next.push(Math.min(next[j] + 1, row[j + 1] + 1, row[j] + (letter === other ? 0 : 1))),
    );
    row = next;
  });
  return row.at(-1);
}

// The longest command whose name the text starts with, followed by a space.
function findCommand(text, commands) {
  const candidates = commands
    .flatMap((command) => [command.label, command.name].map((name) => ({ command, name })))
    .sort((a, b) => b.name.length - a.name.length);
  for (const { command, name } of candidates) {
    const match = new RegExp(`^/${escaped(name)}(?=\\s)`, "i").exec(text);
    if (match) return { command, nameEnd: match[0].length };
  }
  return null;
}

// Segments of the text, each for one option: the text before the first `name:`
// belongs to the default option. A value in quotes keeps any `name:` inside it.
function segmentsOf(text, nameEnd, command) {
  const names = command.options
    .flatMap((option) => [option.label, option.name])
    .sort((a, b) => b.length - a.length);
  const starts = names.length === 0 ? [] : labelsIn(text, nameEnd, names);
  const segments = [];
  const firstStart = starts[0]?.start ?? text.length;
  const unquote = unquoter(names);
  if (text.slice(nameEnd, firstStart).trim() !== "" || starts.length === 0) {
    segments.push(segment(text, defaultOption(command), nameEnd, nameEnd + 1, firstStart, unquote));
  }
  starts.forEach(({ start, valueStart, name }, i) => {
    const option = command.options.find((o) =>
      [o.label, o.name].some((n) => n.toLowerCase() === name.toLowerCase()),
    );
    const end = starts[i + 1]?.start ?? text.length;
    segments.push({ ...segment(text, option, start, valueStart, end, unquote), named: true });
  });
  return segments;
}

function labelsIn(text, from, names) {
  const label = new RegExp(`(?<=\\s)(${anyOf(names)}):`, "giu");
  const quoted = new RegExp(`\\s*${QUOTED}(?=\\s*$|\\s+${anyOf(names)}:)`, "iuy");
  const found = [];
  label.lastIndex = quotedEnd(quoted, text, from);
  for (let match = label.exec(text); match; match = label.exec(text)) {
    const valueStart = match.index + match[0].length;
    found.push({ start: match.index, valueStart, name: match[1] });
    label.lastIndex = quotedEnd(quoted, text, valueStart);
  }
  return found;
}

function quotedEnd(quoted, text, from) {
  quoted.lastIndex = from;
  return quoted.exec(text) ? quoted.lastIndex : from;
}

function segment(text, option, start, valueStart, end, unquote) {
  return {
    option,
    start,
    end,
    named: false,
    valueStart: Math.min(valueStart, end),
    raw: unquote(text.slice(valueStart, end).trim()),
  };
}

// Quotes are removed only where they were needed: a quoted prompt keeps its quotes.
function unquoter(names) {
  if (names.length === 0) return (raw) => raw;
  const whole = new RegExp(`^${QUOTED}$`, "u");
  const label = new RegExp(`${anyOf(names)}:`, "iu");
  return (raw) => {
    const inner = whole.exec(raw)?.[2] ?? "";
    return label.test(inner) ? inner.trim() : raw;
  };
}

/**
 * Values by option name, and the problems that prevent sending. `files` are the files
 * of the command, by option name.
 */
export function check(line, people, known = new Map(), files = new Map()) {
  const values = Object.fromEntries(files);
  const problems = [];
  const given = new Set();
  for (const { option, raw, named } of line.segments) {
    if (option === null) {
      if (raw !== "") problems.push({ option: null, sentence: `/${line.command.label} takes no options.` });
      continue;
    }
    if (raw === "") {
      if (named && !option.required && !files.has(option.name)) {
        const sentence = `${option.label} is empty: give it a value or take it out.`;
        problems.push({ option, empty: true, sentence });
      }
      continue;
    }
    if (given.has(option.name)) problems.push({ option, sentence: `${option.label} is given twice.` });
    given.add(option.name);
    const { value, problem } = readValue(option, raw, people, known.get(option.name));
    if (problem) problems.push({ option, sentence: `${option.label} ${problem}` });
    else values[option.name] = value;
  }
  for (const option of line.command.options) {
    if (option.required && !given.has(option.name) && !files.has(option.name)) {
      problems.push({ option, missing: true, sentence: `${option.label} is needed: ${option.description}` });
    }
  }
  return { values, problems };
}

/** The segment at the caret, or null while the caret is in the command's name. */
export function segmentAt(line, caret) {
  return line.segments.find((s) => caret >= s.valueStart && caret <= s.end) ?? null;
}

/** The text and caret after selecting `option`: at its value if it is given, else added at the end. */
export function withOption(text, line, option) {
  const there = line.segments.find((s) => s.option === option && (s.named || s.raw !== ""));
  if (there) return { text, caret: endOfValue(text, there) };
  const added = `${text.trimEnd()} ${option.label}: `;
  return { text: added, caret: added.length };
}

/** The text and caret after `value` replaces the value of the caret's segment. */
export function withValue(text, target, value) {
  const before = text.slice(0, target.valueStart).trimEnd();
  const after = text.slice(target.end).trim();
  const head = `${before} ${value} `;
  return { text: head + after, caret: head.length };
}

/**
 * The text and caret after `words` replace the text from `start` to `end`, in quotes, because they are
 * the whole value of an option and name options. Null where the words need no quotes.
 */
export function withQuoted(text, start, end, words, commands) {
  const [before, after] = [text.slice(0, start), text.slice(end)];
  const line = parseLine(`${before} ${after}`, commands);
  const segment = line.kind === "command" ? segmentAt(line, start) : null;
  if (!segment?.named || segment.raw !== "" || segment.option.type !== OptionType.STRING) return null;
  const names = line.command.options.flatMap((option) => [option.label, option.name]);
  if (labelsIn(` ${words}`, 0, names).length === 0) return null;
  const head = before + inQuotes(words);
  return { text: head + after.replace(/^(?=\S)/, " "), caret: head.length };
}

function inQuotes(words) {
  if (!words.includes('"')) return `"${words}"`;
  let marks = '"""';
  while (words.includes(marks)) marks += '"';
  return marks + words.replace(/^(?=")|(?<=")$/g, " ") + marks; // the space keeps the marks apart
}

/** The text and caret without the name of `option`, if it has no value. */
export function withoutOption(text, line, option) {
  const there = line.segments.find((s) => s.option === option && s.named && s.raw === "");
  if (!there) return { text, caret: text.length };
  const head = `${text.slice(0, there.start).trimEnd()} `;
  return { text: head + text.slice(there.end).trim(), caret: head.length };
}

function endOfValue(text, { valueStart, end }) {
  return valueStart + text.slice(valueStart, end).trimEnd().length;
}
