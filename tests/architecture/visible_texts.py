"""Finds visible texts outside the catalogues: literals that no gettext call takes.

It finds three kinds of literals: words with a blank, except in places that no person reads; single words that
are an argument of a call that shows text; and single words in the results of functions that take a language's
`Texts`.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TypeGuard

import regex

TRANSLATES = frozenset({"gettext", "pgettext", "ngettext", "locale_str", "command_name"})
"""Calls whose positional arguments are looked up in the catalogues."""

SHOWN_ARGUMENTS = frozenset(
    {
        *("label", "title", "description", "placeholder", "content", "text", "default"),
        *("heading", "status", "footer", "folded", "alt"),
    }
)
"""Keywords whose values people read, in any call."""

SHOWS = frozenset(
    {
        *("TextDisplay", "page", "page_lines", "modal", "text_field", "ButtonContent", "MenuContent"),
        *("Choice", "SelectOption", "MessageContent", "PictureContent"),
        *("send", "send_message", "say", "add", "add_page", "refuse"),
        *("line", "joined", "isolated", "UserMistake", "InvalidRequest"),
    }
)
"""Calls whose arguments people read, but for those of `NOT_SHOWN`."""

NOT_SHOWN = frozenset({"custom_id", "value", "key", "style", "stem", "tone", "emoji", "mark"})
IDS: Mapping[str, tuple[int, ...]] = {"modal": (1,), "text_field": (1,)}
"""The positions of arguments of `SHOWS` that are ids."""

CODES = frozenset({"UserMistake", "InvalidRequest"})
"""Calls whose first argument is a key of a table of sentences."""

READERS = frozenset(
    {
        *(
            "get",
            "pop",
            "partition",
            "rpartition",
            "split",
            "startswith",
            "endswith",
            "removeprefix",
            "removesuffix",
        ),
        *("cast", "compile", "create_task", "getattr", "TypeVar"),
    }
)
"""Calls whose arguments are compared, read as a pattern, or name a task."""

WORD = regex.compile(r"[\p{Lu}\p{Ll}\p{Lo}]{2,}")


@dataclass(frozen=True, order=True)
class Found:
    """A literal that people may see untranslated."""

    line: int
    text: str


def visible_texts(source: str, *, translated_tables: frozenset[str] = frozenset()) -> list[Found]:
    """Return the untranslated literals of a module.

    The values of a table in `translated_tables` are translated elsewhere.
    """
    tree = ast.parse(source)
    found = _Module(tree, translated_tables | tables_translated_in(source)).found()
    return sorted(set(found))


def tables_translated_in(source: str) -> frozenset[str]:
    """Return the names of tables whose values a gettext call takes, directly or by a local variable."""
    if not any(name in source for name in TRANSLATES):
        return frozenset()
    names: set[str] = set()
    for function in ast.walk(ast.parse(source)):
        if not isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        given: dict[str, list[ast.expr]] | None = None
        for call in ast.walk(function):
            if isinstance(call, ast.Call) and _name(call.func) in TRANSLATES:
                given = _assigned(function) if given is None else given
                for argument in call.args:
                    names |= _tables(argument, given)
    return frozenset(names)


def unknown_codes(source: str, known: Mapping[str, frozenset[str]]) -> list[Found]:
    """Return the codes of mistakes that have no sentence; `known` has the codes of each class of errors."""
    if not any(name in source for name in known):
        return []
    calls = (call for call in ast.walk(ast.parse(source)) if isinstance(call, ast.Call) and call.args)
    return [
        Found(call.lineno, code.value)
        for call in calls
        if _name(call.func) in known
        and isinstance(code := call.args[0], ast.Constant)
        and isinstance(code.value, str)
        and code.value not in known[_name(call.func)]
    ]


class _Module:
    def __init__(self, tree: ast.Module, tables: frozenset[str]) -> None:
        self._tables = tables
        self._parents = {child: node for node in ast.walk(tree) for child in ast.iter_child_nodes(node)}
        self._tree = tree

    def found(self) -> Iterator[Found]:
        for node in ast.walk(self._tree):
            if _is_word(node) and regex.search(r"\s", str(node.value)) and not self._is_unread(node):
                yield Found(node.lineno, str(node.value))
            if isinstance(node, ast.Call):
                yield from self._of_call(node)
            if isinstance(node, ast.Return | ast.Yield) and _says(self._function_of(node)):
                yield from self._shown(node.value, node)

    def _of_call(self, call: ast.Call) -> Iterator[Found]:
        """Yield the literals that a call shows, also by a variable of the same function."""
        shown: list[ast.expr] = [each.value for each in call.keywords if each.arg in SHOWN_ARGUMENTS]
        if (name := _name(call.func)) in SHOWS:
            ids = (0,) if name in CODES else IDS.get(name, ())
            shown += [argument for number, argument in enumerate(call.args) if number not in ids]
            shown += [each.value for each in call.keywords if each.arg not in NOT_SHOWN]
        for argument in shown:
            yield from self._shown(argument, call)

    def _shown(self, value: ast.expr | None, where: ast.AST) -> Iterator[Found]:
        if value is None:
            return
        for literal in _literals(value, _assigned(self._function_of(where))):
            if not self._is_unread(literal):
                yield Found(literal.lineno, str(literal.value))

    def _function_of(self, node: ast.AST) -> ast.AST:
        while not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Module):
            node = self._parents[node]
        return node

    def _is_unread(self, node: ast.AST) -> bool:
        """Whether a literal is documentation, a pattern, a name, for the operator's log, or translated."""
        child, parent = node, self._parents.get(node)
        while parent is not None:
            if _hides(parent, child, self._tables):
                return True
            if isinstance(parent, ast.stmt):
                return False
            child, parent = parent, self._parents.get(parent)
        return False


def _hides(parent: ast.AST, child: ast.AST, tables: frozenset[str]) -> bool:
    if isinstance(parent, ast.Expr):
        return isinstance(child, ast.Constant)  # documentation
    if isinstance(parent, ast.Compare | ast.Assert | ast.Subscript | ast.arg | ast.MatchValue):
        return True
    if isinstance(parent, ast.Dict):
        return child in parent.keys
    if isinstance(parent, ast.Raise):
        return not (isinstance(parent.exc, ast.Call) and _name(parent.exc.func) in CODES)
    if isinstance(parent, ast.Assign | ast.AnnAssign):
        targets = parent.targets if isinstance(parent, ast.Assign) else [parent.target]
        return any(_name(target) in tables | {"__all__"} for target in targets)
    if isinstance(parent, ast.ClassDef):
        return isinstance(child, ast.keyword)  # the `template` of a dynamic item
    if not isinstance(parent, ast.Call):
        return False
    name = _name(parent.func)
    if name in TRANSLATES:
        return child in parent.args
    logs = isinstance(parent.func, ast.Attribute) and _name(parent.func.value) == "log"
    return logs or name in READERS or (name == "__init__" and child in parent.args)


def _is_word(node: ast.AST) -> TypeGuard[ast.Constant]:
    return isinstance(node, ast.Constant) and isinstance(node.value, str) and bool(WORD.search(node.value))


def _says(function: ast.AST) -> bool:
    """Whether a function returns text in a language that it is given."""
    if not isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef) or function.returns is None:
        return False
    given = (*function.args.args, *function.args.kwonlyargs)
    return "str" in ast.unparse(function.returns) and any(
        each.annotation is not None and _name(each.annotation) == "Texts" for each in given
    )


def _name(node: ast.AST) -> str:
    """The last name of an expression; empty without one."""
    if isinstance(node, ast.Subscript):
        return _name(node.value)
    return getattr(node, "attr", getattr(node, "id", ""))


def _assigned(scope: ast.AST) -> dict[str, list[ast.expr]]:
    """The values that are assigned to each variable of a function."""
    given: dict[str, list[ast.expr]] = {}
    for node in ast.walk(scope):
        if isinstance(node, ast.Assign | ast.AugAssign | ast.AnnAssign | ast.NamedExpr) and node.value:
            for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
                for each in ast.walk(target):
                    if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store):
                        given.setdefault(each.id, []).append(node.value)
    return given


def _literals(
    node: ast.AST, given: Mapping[str, list[ast.expr]], seen: frozenset[str] = frozenset()
) -> Iterator[ast.Constant]:
    """Yield the words within an expression, and within what its variables were assigned."""
    if isinstance(node, ast.Call) and _name(node.func) in SHOWS | TRANSLATES:
        return  # it is looked at by itself
    if _is_word(node):
        yield node
    if isinstance(node, ast.Name) and node.id not in seen:
        for value in given.get(node.id, ()):
            yield from _literals(value, given, seen | {node.id})
    for child in ast.iter_child_nodes(node):
        yield from _literals(child, given, seen)


def _tables(node: ast.AST, given: Mapping[str, list[ast.expr]], depth: int = 0) -> set[str]:
    names = {each.id for each in ast.walk(node) if isinstance(each, ast.Name)}
    for name in tuple(names) if depth < 2 else ():
        for value in given.get(name, ()):
            names |= _tables(value, given, depth + 1)
    return {name for name in names if name.isupper()}
