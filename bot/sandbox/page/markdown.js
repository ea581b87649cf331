// Discord's Markdown, the part bots use, as a pure parser: text in, a tree of plain objects out.
// Nodes: {type, children?, text?, ...}. The view turns them into elements; nothing here knows HTML.

const ESCAPABLE = /[\\`*_{}[\]()#+\-.!|~<>:/@]/;

// Inline marks that enclose other marks, longest first.
const PAIRS = [
  ["**", "strong"],
  ["__", "underline"],
  ["~~", "strike"],
  ["||", "spoiler"],
  ["*", "em"],
  ["_", "em"],
];

const ATOMS = [
  { re: /^<@!?(\d{1,20})>/, make: (m) => ({ type: "mention", id: m[1] }) },
  { re: /^<@&(\d{1,20})>/, make: (m) => ({ type: "role", id: m[1] }) },
  { re: /^<#(\d{1,20})>/, make: (m) => ({ type: "channel", id: m[1] }) },
  { re: /^<\/([^:>\n]{1,100}):\d{1,20}>/, make: (m) => ({ type: "command", text: m[1] }) },
  {
    re: /^<t:(-?\d{1,13})(?::([tTdDfFR]))?>/,
    make: (m) => ({ type: "time", seconds: Number(m[1]), style: m[2] ?? "f" }),
  },
  { re: /^<a?:(\w{2,32}):\d{1,20}>/, make: (m) => ({ type: "text", text: `:${m[1]}:` }) },
  { re: /^<(https?:\/\/[^\s<>]+)>/, make: (m) => ({ type: "link", href: m[1], children: [text(m[1])] }) },
  {
    re: /^https?:\/\/[^\s<>]*[^\s<>.,:;"'\])!?]/,
    make: (m) => ({ type: "link", href: m[0], children: [text(m[0])] }),
  },
];

const text = (value) => ({ type: "text", text: value });

/** Parse a whole message: blocks first, then what is inside each. */
export function parse(source) {
  return blocks(source.replaceAll("\r\n", "\n"));
}

function blocks(source) {
  const nodes = [];
  let rest = source;
  while (rest !== "") {
    const fence = /^```(?:[\w+-]{0,20}\n)?([\s\S]+?)```\n?/.exec(rest);
    if (fence) {
      nodes.push({ type: "codeblock", text: fence[1].replace(/\n$/, "") });
      rest = rest.slice(fence[0].length);
      continue;
    }
    const end = nextBreak(rest);
    const line = rest.slice(0, end);
    rest = rest.slice(rest[end] === "\n" ? end + 1 : end);
    addLine(nodes, line);
  }
  return nodes;
}

// Where this line ends: at its line break, or before a code block that opens inside it.
function nextBreak(rest) {
  const newline = rest.indexOf("\n");
  const end = newline === -1 ? rest.length : newline;
  const fence = rest.search(/```[\s\S]+?```/);
  return fence > 0 && fence < end ? fence : end;
}

function addLine(nodes, line) {
  const heading = /^(#{1,3}) +(.+)$/.exec(line);
  if (heading)
    return void nodes.push({ type: "heading", level: heading[1].length, children: inline(heading[2]) });
  const subtext = /^-# +(.+)$/.exec(line);
  if (subtext) return void nodes.push({ type: "subtext", children: inline(subtext[1]) });
  const quote = /^> (.*)$/.exec(line);
  if (quote) return void joinInto(nodes, "quote", { type: "line", children: inline(quote[1]) });
  const numbered = /^ {0,4}(\d{1,3})\. +(.+)$/.exec(line);
  if (numbered) {
    joinInto(nodes, "numbered", { type: "item", children: inline(numbered[2]) });
    return void (nodes.at(-1).first ??= Number(numbered[1]));
  }
  const item = /^ {0,4}[-*] +(.+)$/.exec(line);
  if (item) return void joinInto(nodes, "list", { type: "item", children: inline(item[1]) });
  return void joinInto(nodes, "paragraph", { type: "line", children: inline(line) });
}

function joinInto(nodes, type, child) {
  const last = nodes.at(-1);
  if (last?.type === type) last.children.push(child);
  else nodes.push({ type, children: [child] });
}

/** Parse the content of one line. */
export function inline(source, depth = 0) {
  const nodes = [];
  let plain = "";
  let at = 0;
  const flush = () => {
    if (plain !== "") nodes.push(text(plain));
    plain = "";
  };
  while (at < source.length) {
    if (source[at] === "\\" && ESCAPABLE.test(source[at + 1] ?? "")) {
      plain += source[at + 1];
      at += 2;
      continue;
    }
    const found = depth < 12 ? special(source, at, depth) : null;
    if (found) {
      flush();
      nodes.push(found.node);
      at = found.end;
    } else {
      plain += source[at];
      at += 1;
    }
  }
  flush();
  return nodes;
}

function special(source, at, depth) {
  const rest = source.slice(at);
  const code = /^(`{1,2})([^`]|[^`][\s\S]*?[^`])\1(?!`)/.exec(rest);
  if (code) return { node: { type: "code", text: code[2] }, end: at + code[0].length };
  for (const { re, make } of ATOMS) {
    const match = re.exec(rest);
    if (match) return { node: make(match), end: at + match[0].length };
  }
  const masked = /^\[([^\]\n]{1,200})\]\((?:(https?:\/\/[^\s()<>]+)|<(https?:\/\/[^\s<>]+)>)\)/.exec(rest);
  if (masked) {
    return {
      node: { type: "link", href: masked[2] ?? masked[3], children: inline(masked[1], depth + 1) },
      end: at + masked[0].length,
    };
  }
  return pair(source, at, depth);
}

function pair(source, at, depth) {
  for (const [mark, type] of PAIRS) {
    if (!source.startsWith(mark, at)) continue;
    // An underscore inside a word is part of the word: snake_case stays as it is.
    if (mark === "_" && /\w/.test(source[at - 1] ?? "")) return null;
    const close = closing(source, at + mark.length, mark);
    if (close === -1) continue;
    const inside = source.slice(at + mark.length, close);
    if (mark.length === 1 && /^\s|\s$/.test(inside)) continue;
    return { node: { type, children: inline(inside, depth + 1) }, end: close + mark.length };
  }
  return null;
}

// Index of the mark that closes one opened before `from`, skipping escapes and code; -1 without one.
function closing(source, from, mark) {
  let at = from;
  while (at < source.length) {
    if (source[at] === "\\") at += 2;
    else if (source[at] === "`") at = Math.max(at + 1, source.indexOf("`", at + 1) + 1);
    else if (source.startsWith(mark, at) && at > from) {
      // In a run of marks the last marks close: ***both*** is *both* within **…**.
      const longer = mark.length === 1 ? source[at + 1] === mark : source[at + 2] === mark[0];
      if (!longer && !(mark === "_" && /\w/.test(source[at + 1] ?? ""))) return at;
      at += longer && mark.length === 1 ? 2 : 1;
    } else at += 1;
  }
  return -1;
}

/** The text without marks, for announcements and labels. */
export function plainText(source) {
  const words = (nodes) => nodes.map((node) => node.text ?? words(node.children ?? [])).join("");
  return parse(source)
    .map((node) => words([node]))
    .join(" ")
    .trim();
}
