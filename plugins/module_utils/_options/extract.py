# SPDX-License-Identifier: GPL-3.0-or-later
# Private to this collection: may change in any release.
"""Reads the options of an SGLang from its sources, without importing or running it.

Three styles exist: hand-written ``add_argument`` calls (to 0.5.13), a dataclass with annotated fields
(0.5.14 to 0.5.19) and msgspec structs in ``arg_groups/fields`` (from 0.5.20). The last two still have a few
``add_argument`` calls, so both readers run over whatever is there.
"""

from __future__ import annotations

import ast
import hashlib
import os
from dataclasses import dataclass, field
from typing import Any

from .._errors import LlmHostError
from .model import Option

SERVER_ARGS = "sglang.srt.server_args"
FIELDS = "sglang.srt.arg_groups.fields"
MAX_DEPTH = 20


class Unresolved(Exception):
    """The expression can't be worked out from the sources alone."""


@dataclass
class Module:
    """One parsed source file: what its names stand for."""

    name: str
    tree: ast.Module
    assigned: dict[str, ast.expr] = field(default_factory=dict)
    imported: dict[str, tuple[str, str]] = field(default_factory=dict)
    classes: dict[str, ast.ClassDef] = field(default_factory=dict)
    functions: dict[str, ast.FunctionDef] = field(default_factory=dict)


class Sources:
    """The sources below one ``site-packages``, parsed on demand, each read remembered with its digest."""

    def __init__(self, root: str) -> None:
        self.root = root
        self.digests: dict[str, str] = {}
        self._modules: dict[str, Module | None] = {}

    def path(self, name: str) -> str | None:
        base = os.path.join(self.root, *name.split("."))
        for candidate in (base + ".py", os.path.join(base, "__init__.py")):
            if os.path.isfile(candidate):
                return candidate
        return None

    def module(self, name: str) -> Module | None:
        if name not in self._modules:
            path = self.path(name)
            self._modules[name] = self._parse(name, path) if path else None
        return self._modules[name]

    def names_in(self, package: str) -> list[str]:
        """Modules directly in a package, sorted."""
        folder = os.path.join(self.root, *package.split("."))
        if not os.path.isdir(folder):
            return []
        names = sorted(entry[:-3] for entry in os.listdir(folder) if entry.endswith(".py") and entry != "__init__.py")
        return [package + "." + name for name in names]

    def _parse(self, name: str, path: str) -> Module:
        try:
            with open(path, "rb") as handle:
                content = handle.read()
            tree = ast.parse(content)
        except (OSError, SyntaxError, ValueError) as error:
            raise LlmHostError(
                "schema_unreadable",
                f"The options of SGLang can't be read from {path}: {error}. Reinstall SGLang in this venv, or name the "
                "version with 'sglang_version' and leave 'venv' out",
                path=path,
            ) from None
        self.digests[os.path.relpath(path, self.root)] = hashlib.sha256(content).hexdigest()
        module = Module(name, tree)
        for node in tree.body:
            if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
                module.assigned[node.targets[0].id] = node.value
            elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.value is not None:
                module.assigned[node.target.id] = node.value
            elif isinstance(node, ast.ClassDef):
                module.classes[node.name] = node
            elif isinstance(node, ast.FunctionDef):
                module.functions[node.name] = node
        for found in ast.walk(tree):
            if isinstance(found, ast.ImportFrom) and found.module and found.module.split(".")[0] == "sglang":
                for alias in found.names:
                    module.imported[alias.asname or alias.name] = (found.module, alias.name)
        return module


class Evaluator:
    """Works out expressions as far as literals, names, classes and small functions of the package allow."""

    def __init__(self, sources: Sources) -> None:
        self.sources = sources

    def value(self, node: ast.expr, module: Module, names: dict[str, ast.expr] | None = None, depth: int = 0) -> Any:
        """The value of ``node``; raises ``Unresolved``. ``names`` are local variables of a function."""
        if depth > MAX_DEPTH:
            raise Unresolved(ast.unparse(node))
        try:
            return ast.literal_eval(node)
        except (ValueError, TypeError, SyntaxError):
            pass

        def inner(child: ast.expr) -> Any:
            return self.value(child, module, names, depth + 1)

        if isinstance(node, ast.Name):
            return self._name(node.id, module, names, depth)
        if isinstance(node, ast.BinOp):
            return _binary(node, inner(node.left), inner(node.right))
        if isinstance(node, (ast.List, ast.Tuple, ast.Set)):
            items: list[Any] = []
            for element in node.elts:
                if isinstance(element, ast.Starred):
                    items.extend(_sequence(inner(element.value)))
                else:
                    items.append(inner(element))
            return sorted(items) if isinstance(node, ast.Set) else items
        if isinstance(node, ast.Dict):
            return {inner(key): None for key in node.keys if key is not None}  # only the keys are ever asked for
        if isinstance(node, ast.Lambda):
            return inner(node.body)
        if isinstance(node, ast.Subscript):
            container, index = inner(node.value), inner(node.slice)
            try:
                return container[index]
            except (TypeError, LookupError):
                raise Unresolved(ast.unparse(node)) from None
        if isinstance(node, ast.Attribute):
            return self._attribute(node, module, depth)
        if isinstance(node, ast.ListComp):
            return self._enum_names(node, module, names, depth)
        if isinstance(node, ast.Call):
            return self._call(node, module, names, depth)
        raise Unresolved(ast.unparse(node))

    def text(self, node: ast.expr | None, module: Module) -> str:
        """A help text as far as it is literal (f-strings without their variables)."""
        if isinstance(node, ast.JoinedStr):
            return "".join(str(part.value) for part in node.values if isinstance(part, ast.Constant))
        if isinstance(node, ast.BinOp):
            return self.text(node.left, module) + self.text(node.right, module)
        if node is None:
            return ""
        try:
            found = self.value(node, module)
        except Unresolved:
            return ""
        return found if isinstance(found, str) else ""

    def _name(self, name: str, module: Module, names: dict[str, ast.expr] | None, depth: int) -> Any:
        if names and name in names:
            rest = {key: node for key, node in names.items() if key != name}  # x = f(x) must not go round
            return self.value(names[name], module, rest, depth + 1)
        if name in module.assigned:
            return self.value(module.assigned[name], module, None, depth + 1)
        if name in module.imported:
            origin, original = module.imported[name]
            other = self.sources.module(origin)
            if other is not None and other is not module:
                return self._name(original, other, None, depth + 1)
        raise Unresolved(name)

    def _class(self, node: ast.expr, module: Module) -> tuple[ast.ClassDef, Module] | None:
        if not isinstance(node, ast.Name):
            return None
        if node.id in module.classes:
            return module.classes[node.id], module
        if node.id in module.imported:
            origin, original = module.imported[node.id]
            other = self.sources.module(origin)
            if other is not None and original in other.classes:
                return other.classes[original], other
            if other is not None and original in other.imported and other is not module:
                return self._class(ast.Name(id=original, ctx=ast.Load()), other)
        return None

    def _attribute(self, node: ast.Attribute, module: Module, depth: int) -> Any:
        found = self._class(node.value, module)
        if found is not None:
            value = class_value(found[0], node.attr)
            if value is not None:
                return self.value(value, found[1], class_names(found[0]), depth + 1)
        raise Unresolved(ast.unparse(node))

    def _enum_names(self, node: ast.ListComp, module: Module, names: dict[str, ast.expr] | None, depth: int) -> Any:
        """``[m.name.lower() for m in SomeEnum]`` (or over a function that lists an enum)."""
        source = node.generators[0].iter
        if isinstance(source, ast.Call) and isinstance(source.func, ast.Name) and source.func.id in module.functions:
            returned = _returned(module.functions[source.func.id])
            if isinstance(returned, ast.Call) and len(returned.args) == 1:
                source = returned.args[0]
        found = self._class(source, module)
        if found is None or len(node.generators) != 1 or node.generators[0].ifs:
            raise Unresolved(ast.unparse(node))
        element = ast.unparse(node.elt).replace(ast.unparse(node.generators[0].target), "member", 1)
        members = [
            (item.targets[0].id, item.value)
            for item in found[0].body
            if isinstance(item, ast.Assign) and isinstance(item.targets[0], ast.Name)
        ]
        if element == "member.name.lower()":
            return [name.lower() for name, _value in members]
        if element == "member.name":
            return [name for name, _value in members]
        if element == "member.value":
            return [self.value(value, found[1], None, depth + 1) for _name, value in members]
        raise Unresolved(ast.unparse(node))

    def _call(self, node: ast.Call, module: Module, names: dict[str, ast.expr] | None, depth: int) -> Any:
        function = ast.unparse(node.func)
        plain = function.rsplit(".", 1)[-1]
        if function in ("list", "tuple", "set", "frozenset", "sorted"):
            if not node.args:
                return []
            items = _sequence(self.value(node.args[0], module, names, depth + 1))
            return sorted(items, key=str) if function in ("set", "frozenset", "sorted") else items
        if plain == "keys" and isinstance(node.func, ast.Attribute):
            return _sequence(self.value(node.func.value, module, names, depth + 1))
        if plain == "_declared_default" and node.args:
            wanted = self.value(node.args[0], module, names, depth + 1)
            return self.field_default(str(wanted), depth + 1)
        for keyword in node.keywords:
            if keyword.arg == "default_factory":
                if isinstance(keyword.value, ast.Name) and keyword.value.id in ("list", "dict"):
                    return [] if keyword.value.id == "list" else {}
                return self.value(keyword.value, module, names, depth + 1)
            if keyword.arg == "default":
                return self.value(keyword.value, module, names, depth + 1)
        if isinstance(node.func, ast.Name) and node.func.id in module.functions and not node.args:
            returned = _returned(module.functions[node.func.id])
            if returned is not None:
                return self.value(returned, module, None, depth + 1)
        raise Unresolved(ast.unparse(node))

    def field_default(self, name: str, depth: int = 0) -> Any:
        """What a field of the structs in ``arg_groups/fields`` (or of ``ServerArgs``) starts with."""
        for module_name in [*self.sources.names_in(FIELDS), SERVER_ARGS]:
            module = self.sources.module(module_name)
            for node in module.classes.values() if module else ():
                value = class_value(node, name)
                if value is not None and module is not None:
                    return self.value(value, module, None, depth + 1)
        raise Unresolved(name)


def class_value(node: ast.ClassDef, name: str) -> ast.expr | None:
    for item in node.body:
        if isinstance(item, ast.AnnAssign) and isinstance(item.target, ast.Name) and item.target.id == name:
            return item.value
        if isinstance(item, ast.Assign) and isinstance(item.targets[0], ast.Name) and item.targets[0].id == name:
            return item.value
    return None


def class_names(node: ast.ClassDef) -> dict[str, ast.expr]:
    """What the names in a class body stand for, for the values there that use them."""
    return {
        item.targets[0].id: item.value
        for item in node.body
        if isinstance(item, ast.Assign) and len(item.targets) == 1 and isinstance(item.targets[0], ast.Name)
    }


def _returned(function: ast.FunctionDef) -> ast.expr | None:
    """What a function returns in the end, where its last statement says so."""
    last = function.body[-1]
    return last.value if isinstance(last, ast.Return) else None


def _sequence(value: Any) -> list[Any]:
    if isinstance(value, (list, tuple, dict)):
        return list(value)
    if isinstance(value, (set, frozenset)):
        return sorted(value, key=str)
    raise Unresolved(repr(value))


def _binary(node: ast.BinOp, left: Any, right: Any) -> Any:
    if isinstance(node.op, ast.Add):
        if isinstance(left, (list, tuple)) and isinstance(right, (list, tuple)):
            return [*left, *right]
        if isinstance(left, (str, int, float)) and type(left) is type(right):
            return left + right  # type: ignore[operator]
    if isinstance(left, (int, float)) and isinstance(right, (int, float)):
        if isinstance(node.op, ast.Mult):
            return left * right
        if isinstance(node.op, ast.LShift) and isinstance(left, int) and isinstance(right, int):
            return left << right
        if isinstance(node.op, ast.Pow) and abs(right) < 64:
            return left**right
    raise Unresolved(ast.unparse(node))


class Reader:
    """Collects the options from annotated fields and from ``add_argument`` calls."""

    def __init__(self, sources: Sources) -> None:
        self.sources = sources
        self.evaluator = Evaluator(sources)
        self.options: dict[str, Option] = {}
        self.from_fields: set[str] = set()

    # -- annotated fields ------------------------------------------------------------------------------------

    def read_fields(self, module: Module, node: ast.ClassDef) -> None:
        for item in node.body:
            if isinstance(item, ast.AnnAssign) and isinstance(item.target, ast.Name):
                option = self._field(item.target.id, item.annotation, item.value, module)
                if option is not None:
                    self.options[option.name] = option
                    self.from_fields.add(option.name)

    def _field(self, name: str, annotation: ast.expr, value: ast.expr | None, module: Module) -> Option | None:
        if isinstance(annotation, ast.Constant) and isinstance(annotation.value, str):
            try:
                annotation = ast.parse(annotation.value, mode="eval").body
            except SyntaxError:
                return None
        if not isinstance(annotation, ast.Subscript) or ast.unparse(annotation.value).rsplit(".", 1)[-1] not in (
            "A",
            "Annotated",
        ):
            return None
        parts = annotation.slice.elts if isinstance(annotation.slice, ast.Tuple) else [annotation.slice]
        meta = self._meta(parts[1:], module)
        if meta is None or self._fact(meta, "no_cli", module) is True:
            return None
        cli = self._fact(meta, "cli_name", module) or "--" + name.replace("_", "-")
        facts: dict[str, Any] = {
            "name": cli,
            "dest": name,
            "aliases": tuple(self._fact(meta, "aliases", module) or ()),
        }
        if value is None:
            facts["required"] = self._fact(meta, "required", module) is not False
        else:
            self._put(facts, "default", value, module)
        if self._fact(meta, "required", module) is True:
            facts["required"] = True
        facts.update(_type_facts(parts[0], meta, self, module))
        if "choices" in meta:
            facts.pop("choices", None)  # they win over those of a Literal, also where they can't be worked out
            self._put(facts, "choices", meta["choices"], module)
        if "nargs" in meta:
            facts["nargs"] = self._fact(meta, "nargs", module)
        self._put(facts, "const", meta.get("const"), module)
        extra = meta.get("action_kwargs")
        if isinstance(extra, ast.Dict):
            for key, node in zip(extra.keys, extra.values):
                self._action_keyword(facts, key.value if isinstance(key, ast.Constant) else None, node, module)
        return self._finish(facts, self.evaluator.text(meta.get("help"), module))

    def _meta(self, parts: list[ast.expr], module: Module) -> dict[str, ast.expr] | None:
        """The keywords of ``Arg(...)``, or a bare help text; ``None`` where the field is no option."""
        meta: dict[str, ast.expr] | None = None
        for part in parts:
            if isinstance(part, ast.Call):
                kind = ast.unparse(part.func).rsplit(".", 1)[-1]
                if kind == "Derived":
                    return None
                if kind == "Arg" and meta is None:
                    meta = {keyword.arg: keyword.value for keyword in part.keywords if keyword.arg}
                    if part.args:
                        meta.setdefault("help", part.args[0])
                if kind in ("Arg", "NS"):
                    continue
            if meta is None and self.evaluator.text(part, module):
                meta = {"help": part}
        return meta

    # -- add_argument ----------------------------------------------------------------------------------------

    def read_calls(self, module: Module, function: ast.FunctionDef) -> None:
        names: dict[str, ast.expr] = {}
        for node in ast.walk(function):
            if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
                names.setdefault(node.targets[0].id, node.value)
        for node in ast.walk(function):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "add_argument":
                option = self._call(node, module, names)
                if option is not None and option.name not in self.from_fields:
                    self.options[option.name] = option

    def _call(self, node: ast.Call, module: Module, names: dict[str, ast.expr]) -> Option | None:
        spellings = [item.value for item in node.args if isinstance(item, ast.Constant) and isinstance(item.value, str)]
        if not spellings:
            return None
        keywords = {keyword.arg: keyword.value for keyword in node.keywords if keyword.arg}
        name = next((spelling for spelling in spellings if spelling.startswith("--")), spellings[0])
        facts: dict[str, Any] = {
            "name": name,
            "aliases": tuple(spelling for spelling in spellings if spelling != name),
            "dest": name.lstrip("-").replace("-", "_"),
        }
        for key in ("dest", "nargs", "required"):
            if key in keywords:
                facts[key] = self._fact(keywords, key, module)
        facts["required"] = facts.get("required") is True
        for key in ("default", "choices", "const"):
            self._put(facts, key, keywords.get(key), module, names)
        if "type" in keywords:
            facts["type"] = _type_name(keywords["type"])
        action = keywords.get("action")
        if action is not None:
            facts["action"] = (
                action.value if isinstance(action, ast.Constant) else ast.unparse(action).rsplit(".", 1)[-1]
            )
        for key in ("new_flag", "error_message"):
            self._action_keyword(facts, key, keywords.get(key), module)
        if facts.get("action") in ("store_true", "DeprecatedStoreTrueAction"):
            facts["type"] = "bool"
            facts.setdefault("default", False)
        return self._finish(facts, self.evaluator.text(keywords.get("help"), module))

    # -- both ------------------------------------------------------------------------------------------------

    def _fact(self, nodes: dict[str, ast.expr], key: str, module: Module) -> Any:
        if key not in nodes:
            return None
        try:
            return self.evaluator.value(nodes[key], module)
        except Unresolved:
            return None

    def _put(
        self,
        facts: dict[str, Any],
        key: str,
        node: ast.expr | None,
        module: Module,
        names: dict[str, ast.expr] | None = None,
    ) -> None:
        if node is None:
            return
        try:
            value = self.evaluator.value(node, module, names)
        except Unresolved:
            if key == "default":
                facts["default_known"] = False
            return
        if key == "choices":
            facts[key] = tuple(_sequence(value)) if value is not None else None
        else:
            facts[key] = value

    def _action_keyword(self, facts: dict[str, Any], key: Any, node: ast.expr | None, module: Module) -> None:
        """What the package's own actions are told: the replacement, or that the option stops the launch."""
        if node is None:
            return
        if key == "new_flag":
            facts["replaced_by"] = self.evaluator.text(node, module) or None
        elif key == "error_message":
            facts["removed"] = True
        elif key == "type":
            facts["type"] = _type_name(node)
        elif key == "nargs":
            facts["nargs"] = self._fact({"nargs": node}, "nargs", module)
        elif key in ("choices", "const"):
            self._put(facts, key, node, module)

    def _finish(self, facts: dict[str, Any], help_text: str) -> Option:
        action = facts.get("action", "store")
        facts["deprecated"] = "eprecat" in help_text[:60] or "Deprecated" in action
        if action == "DeprecatedAction":
            facts["removed"] = facts.get("removed", False) or self._always_raises(action)
        if action == "BooleanOptionalAction":
            spellings = (facts["name"], *facts["aliases"])
            facts["aliases"] = (*facts["aliases"], *("--no-" + spelling[2:] for spelling in spellings))
            facts["type"] = "bool"
        if isinstance(facts.get("default"), tuple):
            facts["default"] = list(facts["default"])
        return Option(**facts)

    def _always_raises(self, action: str) -> bool:
        """Whether the package's own action does nothing but raise."""
        module = self.sources.module(SERVER_ARGS)
        node = module.classes.get(action) if module else None
        for item in node.body if node else ():
            if isinstance(item, ast.FunctionDef) and item.name == "__call__":
                return isinstance(item.body[0], ast.Raise)
        return False


def _type_name(node: ast.expr) -> str:
    return ast.unparse(node)


def _type_facts(annotation: ast.expr, meta: dict[str, ast.expr], reader: Reader, module: Module) -> dict[str, Any]:
    """What the parser does with an annotated type, in the order in which SGLang decides it."""
    if "action" in meta:
        action = meta["action"]
        name = action.value if isinstance(action, ast.Constant) else ast.unparse(action).rsplit(".", 1)[-1]
        return {"action": name, "type": "bool" if name in ("store_true", "store_false") else "str"}
    inner = without_none(annotation)
    parser = _type_name(meta["type_parser"]) if "type_parser" in meta else None
    source = ast.unparse(inner)
    outer = ast.unparse(inner.value).rsplit(".", 1)[-1] if isinstance(inner, ast.Subscript) else None
    if isinstance(inner, ast.Subscript) and outer == "Literal":
        elements = inner.slice.elts if isinstance(inner.slice, ast.Tuple) else [inner.slice]
        facts: dict[str, Any] = {"type": parser or "str"}
        try:
            values = [reader.evaluator.value(element, module) for element in elements]
        except Unresolved:
            return facts
        facts["choices"] = tuple(values)
        if parser is None and type(values[0]) in (int, float):
            facts["type"] = type(values[0]).__name__
        return facts
    if isinstance(inner, ast.Subscript) and outer in ("List", "list") and parser is None:
        element = ast.unparse(inner.slice)
        return {"type": element if element in ("int", "float") else "str", "nargs": "+"}
    if source == "bool":
        return {"type": "bool", "action": "store_true"}
    return {"type": parser or (source if source in ("str", "int", "float") else "str")}


def without_none(annotation: ast.expr) -> ast.expr:
    """``Optional[X]``, ``X | None`` and ``Union[X, None]`` -> ``X``."""
    if isinstance(annotation, ast.Subscript):
        outer = ast.unparse(annotation.value).rsplit(".", 1)[-1]
        if outer == "Optional":
            return annotation.slice
        if outer == "Union" and isinstance(annotation.slice, ast.Tuple):
            rest = [item for item in annotation.slice.elts if not _is_none(item)]
            if len(rest) == 1:
                return rest[0]
    if isinstance(annotation, ast.BinOp) and isinstance(annotation.op, ast.BitOr):
        if _is_none(annotation.right):
            return annotation.left
        if _is_none(annotation.left):
            return annotation.right
    return annotation


def _is_none(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


def extract(root: str) -> tuple[list[Option], dict[str, str]]:
    """The options of the package ``sglang`` below ``root``, and the digest of every source that was read.

    Raises ``LlmHostError`` with reason ``schema_unreadable``.
    """
    sources = Sources(root)
    module = sources.module(SERVER_ARGS)
    if module is None or "ServerArgs" not in module.classes:
        raise LlmHostError(
            "schema_unreadable",
            f"{root} has no sglang/srt/server_args.py with a class ServerArgs: this is not an SGLang that this "
            "collection knows. Reinstall it, or name a version with 'sglang_version' and leave 'venv' out",
            path=root,
        )
    reader = Reader(sources)
    fields = sources.names_in(FIELDS)
    for name in fields:
        part = sources.module(name)
        for node in part.classes.values() if part else ():
            if part is not None:
                reader.read_fields(part, node)
    server_args = module.classes["ServerArgs"]
    if not fields:
        reader.read_fields(module, server_args)
    for item in server_args.body:
        if isinstance(item, ast.FunctionDef) and (
            item.name == "add_cli_args" or (item.name.startswith("_add") and "arg" in item.name)
        ):
            reader.read_calls(module, item)
    if "--model-path" not in reader.options:
        raise LlmHostError(
            "schema_unreadable",
            "The options in %s are written in a way that this collection does not know (%d found, --model-path not "
            "among them). Report this SGLang version" % (sources.path(SERVER_ARGS), len(reader.options)),
            path=root,
        )
    return list(reader.options.values()), sources.digests
