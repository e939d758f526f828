"""Model files: one safetensors file whose header carries a JSON manifest. No code, no pickles.

The manifest names everything by name (domain, properties, references, actions) and the tensors hold the numbers, so
a file can be inspected without its domain and can never ask for anything to be imported or run. `manifest.py` and
`tensors.py` check a file's form and its limits; here it becomes a model of a domain, or a model becomes a file.
"""

from __future__ import annotations

import os
from typing import Any

import jax.numpy as jnp
import numpy as np

from spare.errors import DefinitionError, FileError, SpareError, one_of
from spare.io import manifest as manifests
from spare.io.atomic import replacing
from spare.io.manifest import FORMAT, PREDICTORS
from spare.io.schemas import differences
from spare.language.domain import Domain
from spare.language.references import Pointer, Shell
from spare.language.registry import find_domain
from spare.model.model import Model
from spare.model.predictors import ACTIVATIONS, Network, Predictor
from spare.model.rule import Rule

_SURPRISES = ("surprise_share", "surprise_variance")
_TOGETHER = ("loading", "apart")
_NORMALISATION = ("x_mean", "x_scale", "y_mean", "y_scale")


def save(model: Model, path: str | os.PathLike[str]) -> None:
    """Write a model atomically, if what is written can be read back; numbers that are not finite are refused."""
    try:
        manifest, tensors = pack(model)
        for name, tensor in tensors.items():
            if not np.isfinite(tensor).all():
                raise FileError(f"{name} holds numbers that are not finite")
        data = manifests.encode(manifest, tensors)
        unpack(*manifests.decode(data), model.domain)
    except SpareError as error:
        raise FileError(f"{path}: not written, because {error}") from error
    with replacing(path) as target:
        target.write_bytes(data)


def load(path: str | os.PathLike[str], domain: Domain | None = None) -> Model:
    """Read a model; its domain may be left out for SPARE's own domains."""
    manifest, tensors = manifests.read(path)
    try:
        return unpack(manifest, tensors, _find_domain(manifest, domain))
    except SpareError as error:
        raise FileError(f"{path}: {error}") from error
    except (KeyError, TypeError, ValueError, IndexError, AttributeError) as error:
        raise FileError(f"{path}: the model file is damaged ({type(error).__name__}: {error})") from error


def _find_domain(manifest: dict[str, Any], domain: Domain | None) -> Domain:
    """The domain that was given or that SPARE ships, if the file fits it; what does not fit is named."""
    schema = manifest["domain"]
    chosen = domain if domain is not None else find_domain(schema["name"])
    if chosen is None:
        raise FileError(f"it needs the domain {schema['name']!r}: pass domain=..., or --domain MODULE:NAME")
    own = chosen.schema()
    if schema["name"] != own["name"]:
        raise FileError(f"it needs the domain {schema['name']!r}, not {own['name']!r}")
    for kind in ("properties", "actions", "references"):
        found = differences(schema, own, kind)
        if found:
            raise FileError(f"the domain's {kind} differ: {'; '.join(found[:4])}")
    wanted = {name: float(number) for name, number in manifest["resolutions"].items()}
    had = {p.name: p.resolution for p in chosen.properties if not p.static}
    if {*wanted} != {*had}:
        raise FileError(f"resolutions are told for {', '.join(sorted(wanted))}; {', '.join(sorted(had))} can change")
    return chosen if wanted == had else chosen.with_resolutions(wanted)


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
        for names, parts in ((_SURPRISES, rule.surprises), (_TOGETHER, rule.together)):
            if parts is not None:
                named = zip(names, parts, strict=True)
                tensors |= {f"rule.{k}.{name}": np.asarray(part, np.float32) for name, part in named}
        tensors |= {f"rule.{k}.{name}": tensor for name, tensor in _pack_predictor(rule.predictor).items()}
        rules.append(
            {
                "action": rule.action,
                "gamma": [[p.reference, [*p.arguments]] for p in rule.gamma],
                "delta": [[p.reference, [*p.arguments]] for p in rule.delta],
                "targets": [*rule.targets],
                "inputs": [*rule.inputs],
                "framed": rule.framed,
                "ignores": [*rule.ignores],
                "adds": [*rule.adds],
                "surprises": rule.surprises is not None,
                "together": rule.together is not None,
                "predictor": _describe(rule.predictor),
            }
        )
    schema = model.domain.schema()
    schema["references"] = [r for r in schema["references"] if r["name"] in used]
    names = zip(model.domain.dynamic_names, model.domain.resolutions.tolist(), strict=True)
    manifest = {
        "format": FORMAT,
        "check": "",
        "domain": schema,
        "fingerprint": model.domain.fingerprint,
        "resolutions": dict(names),
        "rules": rules,
        "provenance": dict(model.provenance),
    }
    return manifest, tensors


def _networks(predictor: Predictor) -> dict[str, Network]:
    """The networks by name: two, or one that says both."""
    if predictor.variance_net is None:
        return {"both": predictor.mean_net}
    return {"mean": predictor.mean_net, "variance": predictor.variance_net}


def _describe(predictor: Predictor) -> dict[str, Any]:
    nets = _networks(predictor)
    return {
        "kind": next(kind for kind, names in PREDICTORS.items() if names == tuple(nets)),
        "activations": [net.activation for net in nets.values()],
        "layers": [len(net.weights) for net in nets.values()],
    }


def _pack_predictor(predictor: Predictor) -> dict[str, np.ndarray]:
    tensors = {name: np.asarray(getattr(predictor, name), np.float32) for name in _NORMALISATION}
    for label, net in _networks(predictor).items():
        for position, (weight, bias) in enumerate(zip(net.weights, net.biases, strict=True)):
            tensors[f"{label}.{position}.weight"] = np.asarray(weight, np.float32)
            tensors[f"{label}.{position}.bias"] = np.asarray(bias, np.float32)
    return tensors


def unpack(manifest: dict[str, Any], tensors: dict[str, np.ndarray], domain: Domain) -> Model:
    """The model that a manifest and its tensors describe; every shape is checked by `Rule` and `Model`."""
    left = dict(tensors)
    rules = [_unpack_rule(k, entry, left, domain) for k, entry in enumerate(manifest["rules"])]
    if "default_variance" not in left:
        raise FileError("tensor 'default_variance' is missing")
    rest = left.pop("default_variance")
    if left:
        raise FileError(f"tensors that belong to nothing: {', '.join(sorted(left)[:5])}")
    return Model(domain, rules, rest, manifest["provenance"])


def _unpack_rule(k: int, entry: dict[str, Any], left: dict[str, np.ndarray], domain: Domain) -> Rule:
    roles = len(domain.action(entry["action"]).objects)

    def shell(pointers: list[Any]) -> Shell:
        return Shell(roles, tuple(Pointer(name, tuple(slots)) for name, slots in pointers))

    def take(name: str) -> np.ndarray:
        full = f"rule.{k}.{name}"
        if full not in left:
            raise FileError(f"tensor {full!r} is missing")
        return left.pop(full)

    spec = entry["predictor"]
    nets = [_unpack_net(label, spec, k, take) for k, label in enumerate(PREDICTORS[spec["kind"]])]
    x_mean, x_scale, y_mean, y_scale = (take(name) for name in _NORMALISATION)
    inputs = (nets[0].weights[0].shape[1],)
    if (x_mean.shape, x_scale.shape) != (inputs, inputs) or y_mean.ndim != 2 or y_mean.shape != y_scale.shape:
        raise FileError(f"rule {k + 1}: the normalisation does not fit the network's {inputs[0]} inputs or its outputs")
    rest = take("default_variance")
    if (rest < 0).any() or (x_scale == 0).any():
        raise FileError(f"rule {k + 1}: a variance is negative or a scale is zero")
    parts = (jnp.asarray(part) for part in (x_mean, x_scale, y_mean, y_scale))
    predictor = Predictor(nets[0], nets[1] if len(nets) > 1 else None, *parts)
    shells = (shell(entry["gamma"]), shell(entry["delta"]))
    told: dict[str, Any] = {name: tuple(entry[name]) for name in ("targets", "inputs", "ignores", "adds")}
    for key, names in (("surprises", _SURPRISES), ("together", _TOGETHER)):
        told[key] = (take(names[0]), take(names[1])) if entry[key] else None
    return Rule(domain, entry["action"], shells, predictor, rest, framed=entry["framed"], **told)


def _unpack_net(label: str, spec: dict[str, Any], position: int, take: Any) -> Network:
    activation, layers = spec["activations"][position], spec["layers"][position]
    if activation not in ACTIVATIONS:
        raise DefinitionError(one_of("activation", activation, ACTIVATIONS))
    weights = tuple(jnp.asarray(take(f"{label}.{i}.weight")) for i in range(layers))
    biases = tuple(jnp.asarray(take(f"{label}.{i}.bias")) for i in range(layers))
    for weight, bias in zip(weights, biases, strict=True):
        if weight.ndim != 3 or bias.shape != (weight.shape[0], weight.shape[2]) or 0 in weight.shape:
            raise FileError(f"the {label} network has layers of shapes {weight.shape} and {bias.shape}")
    return Network(weights, biases, activation, label == "both")
