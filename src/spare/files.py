"""Model files: one safetensors file whose header carries a JSON manifest. No code, no pickles.

The manifest names everything by name (domain, properties, references, actions) and the tensors hold the numbers, so
a file can be inspected without its domain and can never ask for anything to be imported or run.
"""

from __future__ import annotations

import json
import os
import pathlib
from typing import Any

import jax.numpy as jnp
import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load as load_tensors
from safetensors.numpy import save as save_tensors

from spare.atomic import replacing
from spare.catalogue import builtin_domain
from spare.domain import Domain
from spare.errors import DefinitionError, FileError, SpareError
from spare.model import Model
from spare.predictor import ACTIVATIONS, Network, Predictor
from spare.references import Pointer, Shell
from spare.rule import Rule

FORMAT = 1
LARGEST_FILE = 1 << 30
_NORMALISATION = ("x_mean", "x_scale", "y_mean", "y_scale")


def save(model: Model, path: str | os.PathLike[str]) -> None:
    """Write a model atomically; a model with numbers that are not finite is refused."""
    manifest, tensors = pack(model)
    for name, tensor in tensors.items():
        if not np.isfinite(tensor).all():
            raise FileError(f"{path}: not written, because {name} holds numbers that are not finite")
    data = save_tensors(tensors, metadata={"spare": json.dumps(manifest, sort_keys=True)})
    with replacing(path) as target:
        target.write_bytes(data)


def load(path: str | os.PathLike[str], domain: Domain | None = None) -> Model:
    """Read a model; its domain may be left out for SPARE's own domains."""
    manifest, tensors = read(path)
    try:
        return unpack(manifest, tensors, _find_domain(manifest, domain))
    except SpareError as error:
        raise FileError(f"{path}: {error}") from error
    except (KeyError, TypeError, ValueError, IndexError, AttributeError) as error:
        raise FileError(f"{path}: the model file is damaged ({type(error).__name__}: {error})") from error


def read(path: str | os.PathLike[str]) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """(manifest, tensors) of a file, checked for form but not for meaning."""
    file = pathlib.Path(path)
    try:
        if not file.is_file():
            raise FileError(f"{path}: there is no such file")
        if file.stat().st_size > LARGEST_FILE:
            raise FileError(f"{path}: larger than a model file can be ({LARGEST_FILE >> 20} MB)")
        data = file.read_bytes()
        manifest = _manifest(data)
        tensors = load_tensors(data)
    except FileError as error:
        raise FileError(str(error) if str(path) in str(error) else f"{path}: {error}") from error
    except (SafetensorError, OSError, ValueError, KeyError, TypeError, RecursionError, OverflowError) as error:
        raise FileError(f"{path}: not a model file, or a damaged one ({type(error).__name__}: {error})") from error
    for name, tensor in tensors.items():
        if tensor.dtype != np.float32 or not np.isfinite(tensor).all():
            raise FileError(f"{path}: tensor {name!r} is not made of finite 32-bit numbers")
    return manifest, tensors


def _manifest(data: bytes) -> dict[str, Any]:
    length = int.from_bytes(data[:8], "little")
    if len(data) < 8 or length > min(len(data) - 8, 1 << 24):
        raise FileError("not a model file: its header is longer than the file")
    header = json.loads(data[8 : 8 + length])
    text = header["__metadata__"]["spare"]
    manifest = json.loads(text)
    if not isinstance(manifest, dict) or not isinstance(manifest.get("format"), int):
        raise FileError("its manifest is damaged")
    if manifest["format"] > FORMAT:
        raise FileError(f"written by a newer SPARE (format {manifest['format']}, this one reads up to {FORMAT})")
    return manifest


def _find_domain(manifest: dict[str, Any], domain: Domain | None) -> Domain:
    schema = manifest["domain"]
    chosen = domain if domain is not None else builtin_domain(str(schema["name"]))
    if chosen is None:
        raise FileError(f"it needs the domain {schema['name']!r}: pass domain=..., or --domain MODULE:NAME")
    own = chosen.schema()
    if schema["name"] != own["name"]:
        raise FileError(f"it needs the domain {schema['name']!r}, not {own['name']!r}")
    for kind in ("properties", "actions"):
        if schema[kind] != own[kind]:
            theirs, ours = ([thing["name"] for thing in side[kind]] for side in (schema, own))
            raise FileError(f"the domain's {kind} differ: the file has {theirs}, the domain {ours}")
    known = {reference["name"]: reference for reference in own["references"]}
    for reference in schema["references"]:
        if reference["name"] not in known:
            raise FileError(f"reference {reference['name']!r} is missing from the domain; it has {sorted(known)}")
        if reference != known[reference["name"]]:
            raise FileError(f"reference {reference['name']!r} is different in the domain: {known[reference['name']]}")
    return chosen.with_resolutions({str(k): float(v) for k, v in manifest["resolutions"].items()})


def pack(model: Model) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """A model as manifest and tensors."""
    tensors = {"default_variance": np.asarray(model.default_variance, np.float32)}
    rules = []
    used = sorted(
        {pointer.reference for rule in model.rules for shell in (rule.gamma, rule.delta) for pointer in shell}
    )
    for k, rule in enumerate(model.rules):
        if not isinstance(rule.predictor, Predictor):
            raise FileError(f"rule {k + 1}: predictors of type {type(rule.predictor).__name__} cannot be saved")
        tensors[f"rule.{k}.default_variance"] = np.asarray(rule.default_variance, np.float32)
        tensors |= {f"rule.{k}.{name}": tensor for name, tensor in _pack_predictor(rule.predictor).items()}
        rules.append(
            {
                "action": rule.action,
                "gamma": [[p.reference, [*p.arguments]] for p in rule.gamma],
                "delta": [[p.reference, [*p.arguments]] for p in rule.delta],
                "targets": [*rule.targets],
                "inputs": [*rule.inputs],
                "framed": rule.framed,
                "predictor": {
                    "kind": "gaussian-mlp",
                    "activations": [rule.predictor.mean_net.activation, rule.predictor.variance_net.activation],
                    "layers": [len(rule.predictor.mean_net.weights), len(rule.predictor.variance_net.weights)],
                },
            }
        )
    schema = model.domain.schema()
    schema["references"] = [r for r in schema["references"] if r["name"] in used]
    names = zip(model.domain.dynamic_names, model.domain.resolutions.tolist(), strict=True)
    manifest = {
        "format": FORMAT,
        "domain": schema,
        "fingerprint": model.domain.fingerprint,
        "resolutions": dict(names),
        "rules": rules,
        "provenance": dict(model.provenance),
    }
    return manifest, tensors


def _pack_predictor(predictor: Predictor) -> dict[str, np.ndarray]:
    tensors = {name: np.asarray(getattr(predictor, name), np.float32) for name in _NORMALISATION}
    for label, net in (("mean", predictor.mean_net), ("variance", predictor.variance_net)):
        for position, (weight, bias) in enumerate(zip(net.weights, net.biases, strict=True)):
            tensors[f"{label}.{position}.weight"] = np.asarray(weight, np.float32)
            tensors[f"{label}.{position}.bias"] = np.asarray(bias, np.float32)
    return tensors


def unpack(manifest: dict[str, Any], tensors: dict[str, np.ndarray], domain: Domain) -> Model:
    """The model that a manifest and its tensors describe; every shape is checked by `Rule` and `Model`."""
    left = dict(tensors)
    rules = [_unpack_rule(k, entry, left, domain) for k, entry in enumerate(manifest["rules"])]
    model = Model(domain, rules, left.pop("default_variance"), manifest.get("provenance") or {})
    if left:
        raise FileError(f"tensors that belong to nothing: {', '.join(sorted(left)[:5])}")
    if (np.asarray(model.default_variance) < 0).any():
        raise FileError("default_variance is negative")
    return model


def _unpack_rule(k: int, entry: dict[str, Any], left: dict[str, np.ndarray], domain: Domain) -> Rule:
    roles = len(domain.action(str(entry["action"])).objects)

    def shell(pointers: list[Any]) -> Shell:
        return Shell(roles, tuple(Pointer(str(name), tuple(int(a) for a in args)) for name, args in pointers))

    def take(name: str) -> np.ndarray:
        full = f"rule.{k}.{name}"
        if full not in left:
            raise FileError(f"tensor {full!r} is missing")
        return left.pop(full)

    spec = entry["predictor"]
    if spec["kind"] != "gaussian-mlp":
        raise FileError(f"rule {k + 1}: unknown kind of predictor {spec['kind']!r}")
    mean, variance = (_unpack_net(label, spec, position, take) for position, label in enumerate(("mean", "variance")))
    x_mean, x_scale, y_mean, y_scale = (jnp.asarray(take(name)) for name in _NORMALISATION)
    predictor = Predictor(mean, variance, x_mean, x_scale, y_mean, y_scale)
    rest = take("default_variance")
    if (rest < 0).any() or (np.asarray(predictor.x_scale) == 0).any():
        raise FileError(f"rule {k + 1}: a variance is negative or a scale is zero")
    shells = (shell(entry["gamma"]), shell(entry["delta"]))
    targets, inputs = tuple(map(str, entry["targets"])), tuple(map(str, entry["inputs"]))
    framed = entry["framed"] is True
    return Rule(domain, str(entry["action"]), shells, predictor, rest, targets=targets, inputs=inputs, framed=framed)


def _unpack_net(label: str, spec: dict[str, Any], position: int, take: Any) -> Network:
    activation, layers = str(spec["activations"][position]), int(spec["layers"][position])
    if activation not in ACTIVATIONS:
        raise DefinitionError(f"unknown activation {activation!r}; valid: {', '.join(ACTIVATIONS)}")
    if not 1 <= layers <= 64:
        raise FileError(f"a network of {layers} layers")
    weights = tuple(jnp.asarray(take(f"{label}.{i}.weight")) for i in range(layers))
    biases = tuple(jnp.asarray(take(f"{label}.{i}.bias")) for i in range(layers))
    for weight, bias in zip(weights, biases, strict=True):
        if weight.ndim != 3 or bias.shape != (weight.shape[0], weight.shape[2]) or 0 in weight.shape:
            raise FileError(f"the {label} network has layers of shapes {weight.shape} and {bias.shape}")
    return Network(weights, biases, activation)
