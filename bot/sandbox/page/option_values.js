// The values of one option: parsing a typed value, the sentence for an invalid value,
// the limits shown with it, and the list of values. Pure.

import { OptionType } from "./commands.js";

const YES = ["true", "yes", "on", "1"];
const NO = ["false", "no", "off", "0"];
const LISTABLE = 25;

/** Read `raw` for `option`: {value} or {problem}. `people` lists members, channels and roles by id and name. */
export function readValue(option, raw, people, known = []) {
  const typed = raw.trim();
  const choice = findChoice([...option.choices, ...known], typed);
  if (choice) return { value: choice.value };
  if (option.choices.length > 0)
    return { problem: `must be one of ${listed(option.choices.map((c) => c.label))}.` };
  return READERS[option.type]?.(option, typed, people) ?? { problem: "cannot be given in this sandbox." };
}

const READERS = {
  [OptionType.STRING]: readString,
  [OptionType.INTEGER]: (option, typed) => readNumber(option, typed, /^[+-]?\d{1,16}$/, "a whole number"),
  [OptionType.NUMBER]: (option, typed) => readNumber(option, typed, /^[+-]?(\d+\.?\d*|\.\d+)$/, "a number"),
  [OptionType.BOOLEAN]: readBoolean,
  [OptionType.USER]: (option, typed, people) => readPerson(typed, "@", people.members, "a member"),
  [OptionType.ROLE]: (option, typed, people) => readPerson(typed, "@", people.roles, "a role"),
  [OptionType.ATTACHMENT]: () => ({ problem: "takes a file: choose it, drop it here or paste it." }),
  [OptionType.CHANNEL]: (option, typed, people) => readPerson(typed, "#", channelsFor(option, people), "a channel"),
};

function readString(option, typed) {
  if (typed.length < option.minLength)
    return { problem: `is too short: ${option.minLength} characters at least.` };
  if (typed.length > option.maxLength) {
    return { problem: `has ${typed.length} characters: shorten it to ${option.maxLength}.` };
  }
  return { value: typed };
}

function readNumber(option, typed, shape, kind) {
  const value = Number(typed);
  const fits = shape.test(typed) && (option.min ?? -Infinity) <= value && value <= (option.max ?? Infinity);
  return fits ? { value } : { problem: `must be ${kind}${range(option)}.` };
}

function readBoolean(option, typed) {
  const word = typed.toLowerCase();
  if (YES.includes(word)) return { value: true };
  if (NO.includes(word)) return { value: false };
  return { problem: "must be true or false." };
}

function readPerson(typed, sign, list, kind) {
  const bare = (name) => (name.startsWith(sign) ? name.slice(1) : name); // the role of all is called @everyone
  const same = (name) => bare(name).toLowerCase() === bare(typed).toLowerCase();
  const found = list.find((one) => one.id === typed || same(one.name));
  return found
    ? { value: found.id }
    : { problem: `must be ${kind}: ${listed(list.map((one) => sign + bare(one.name)))}.` };
}

function channelsFor({ channelTypes }, people) {
  return people.channels.filter(({ type }) => channelTypes.length === 0 || channelTypes.includes(type));
}

function findChoice(choices, typed) {
  const word = typed.toLowerCase();
  const same = (text) => String(text).toLowerCase() === word;
  return choices.find((c) => same(c.label) || same(c.name)) ?? choices.find((c) => same(c.value));
}

function range({ min, max }) {
  if (min !== null && max !== null) return ` from ${min} to ${max}`;
  if (min !== null) return ` of ${min} or more`;
  if (max !== null) return ` of ${max} or less`;
  return "";
}

function listed(words) {
  const shown = words.slice(0, 8).join(", ");
  return words.length > 8 ? `${shown}, …` : shown;
}

/** The limits of an option in a few words, with the count so far for a text. */
export function limits(option, raw = "") {
  if (option.choices.length > 0) return "choose from the list";
  switch (option.type) {
    case OptionType.STRING:
      return option.autocomplete
        ? "suggestions as you type"
        : `${raw.trim().length} of ${option.maxLength} characters`;
    case OptionType.INTEGER:
      return `whole number${range(option)}`;
    case OptionType.NUMBER:
      return `number${range(option)}`;
    case OptionType.BOOLEAN:
      return "true or false";
    case OptionType.USER:
      return "a member";
    case OptionType.CHANNEL:
      return "a channel";
    case OptionType.ROLE:
      return "a role";
    case OptionType.ATTACHMENT:
      return "a file: choose it, drop it here or paste it";
    default:
      return "";
  }
}

/** The values of an option that can be listed without asking the bot, as {label, value}. */
export function listableChoices(option, people) {
  if (option.choices.length > 0) return option.choices;
  switch (option.type) {
    case OptionType.BOOLEAN:
      return [
        { label: "true", value: true },
        { label: "false", value: false },
      ];
    case OptionType.USER:
      return people.members.map((m) => ({ label: `@${m.name}`, value: m.id }));
    case OptionType.CHANNEL:
      return channelsFor(option, people).map((c) => ({ label: `#${c.name}`, value: c.id }));
    case OptionType.ROLE:
      return people.roles.map((role) => ({ label: `@${role.name.replace(/^@/, "")}`, value: role.id }));
    case OptionType.INTEGER:
      return wholeNumbers(option);
    default:
      return [];
  }
}

function wholeNumbers({ min, max }) {
  if (min === null || max === null || max - min >= LISTABLE) return [];
  return Array.from({ length: max - min + 1 }, (_, i) => ({ label: String(min + i), value: min + i }));
}
