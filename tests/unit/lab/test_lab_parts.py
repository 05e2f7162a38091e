# SPDX-License-Identifier: GPL-3.0-or-later
"""Parts of the lab that need no root: the tiny model, the placeholder wheels, where the lab may lie."""

from __future__ import annotations

import base64
import hashlib
import importlib.util
import json
import pathlib
import struct
import sys
import zipfile

import pytest

LABLIB = pathlib.Path(__file__).resolve().parents[2] / "lab" / "lablib"


def load(name):
    sys.path.insert(0, str(LABLIB))
    try:
        spec = importlib.util.spec_from_file_location("unit_" + name, LABLIB / (name + ".py"))
        module = importlib.util.module_from_spec(spec)
        sys.modules[spec.name] = module  # where dataclasses look for it
        spec.loader.exec_module(module)
    finally:
        sys.path.pop(0)
    return module


common, model, wheels = load("lab_common"), load("lab_model"), load("lab_wheels")
LabError = sys.modules["lab_common"].LabError  # the class that the parts themselves raise


def header(path):
    data = path.read_bytes()
    (length,) = struct.unpack("<Q", data[:8])
    return json.loads(data[8 : 8 + length]), len(data) - 8 - length


@pytest.mark.parametrize("kind", sorted(model.ARCHITECTURES))
def test_a_model_is_whole_and_the_same_each_time(kind, tmp_path):
    model.make(tmp_path / "a", kind)
    model.make(tmp_path / "b", kind)
    names = sorted(path.name for path in (tmp_path / "a").iterdir())
    assert "config.json" in names
    assert "tokenizer.json" in names
    for name in names:
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()
        assert (tmp_path / "a" / name).stat().st_mode & 0o777 == 0o644, "readable for the service's user"
    tensors, size = header(tmp_path / "a" / "model.safetensors")
    tensors.pop("__metadata__")
    ends = sorted(tuple(tensor["data_offsets"]) for tensor in tensors.values())
    assert ends[0][0] == 0
    assert ends[-1][1] == size
    assert all(one[1] == other[0] for one, other in zip(ends, ends[1:])), "no gap, no overlap"
    for tensor in tensors.values():
        count = 1
        for length in tensor["shape"]:
            count *= length
        assert tensor["data_offsets"][1] - tensor["data_offsets"][0] == 2 * count


def test_the_tokenizer_has_each_id_once_and_no_more_than_the_model():
    vocabulary = model.tokenizer()["model"]["vocab"]
    assert sorted(vocabulary.values()) == list(range(model.VOCAB))
    merges = model.tokenizer()["model"]["merges"]
    assert len(merges) > 50
    assert all(left + right in vocabulary and left in vocabulary and right in vocabulary for left, right in merges)
    assert set(model.byte_alphabet()) <= set(vocabulary)
    assert len(set(model.byte_alphabet())) == 256


def test_each_broken_model_is_broken_in_its_own_way(tmp_path):
    for how in model.BROKEN:
        model.make(tmp_path / how, "llama", how)
    weights = {how: tmp_path / how / "model.safetensors" for how in model.BROKEN}
    with pytest.raises(UnicodeDecodeError):
        header(weights["corrupt"])
    tensors, size = header(weights["truncated"])
    assert max(t["data_offsets"][1] for n, t in tensors.items() if n != "__metadata__") > size
    assert weights["zero"].stat().st_size == 0
    assert not weights["noweights"].exists()
    assert weights["unreadable"].stat().st_mode & 0o777 == 0o600
    assert json.loads((tmp_path / "badarch/config.json").read_text())["architectures"] == ["NoSuchForCausalLM"]
    assert not (tmp_path / "noconfig/config.json").exists()
    with pytest.raises(LabError, match="choose one of corrupt"):
        model.make(tmp_path / "x", "llama", "nosuch")
    with pytest.raises(LabError, match="choose one of llama"):
        model.make(tmp_path / "x", "gpt")


def record_is_right(path):
    with zipfile.ZipFile(path) as zipped:
        record = next(name for name in zipped.namelist() if name.endswith(".dist-info/RECORD"))
        rows = [line.rsplit(",", 2) for line in zipped.read(record).decode().splitlines()]
        assert sorted(row[0] for row in rows) == sorted(zipped.namelist())
        for name, digest, size in rows:
            if name == record:
                continue
            data = zipped.read(name)
            made = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
            assert (digest, size) == ("sha256=" + made, str(len(data)))


def test_the_placeholder_says_that_it_is_one(tmp_path):
    wheels.pack(tmp_path, wheels.KERNEL)
    (path,) = tmp_path.iterdir()
    record_is_right(path)
    with zipfile.ZipFile(path) as zipped:
        metadata = next(zipped.read(n).decode() for n in zipped.namelist() if n.endswith("METADATA"))
        zipped.extract("sgl_kernel.py", tmp_path / "site")
    assert "PLACEHOLDER" in metadata
    spec = importlib.util.spec_from_file_location("sgl_kernel", tmp_path / "site/sgl_kernel.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert callable(module.assign_req_to_token_pool_cpu)
    with pytest.raises(NotImplementedError, match="placeholder for sgl_kernel has no assign"):
        module.assign_req_to_token_pool_cpu(1, 2)
    with pytest.raises(AttributeError):
        getattr(module, "__wrapped__")  # noqa: B009 (the lookup is the test)


def test_torchvision_is_repacked_under_a_version_that_says_so(tmp_path):
    plain = tmp_path / "torchvision-0.28.0-cp311-cp311-manylinux_2_28_x86_64.whl"
    info = "torchvision-0.28.0.dist-info"
    with zipfile.ZipFile(plain, "w") as zipped:
        zipped.writestr("torchvision/extension.py", "import torch\n")
        zipped.writestr("torchvision/__init__.py", "x = 1\n")
        zipped.writestr(info + "/METADATA", "Metadata-Version: 2.1\nName: torchvision\nVersion: 0.28.0\n")
        zipped.writestr(info + "/RECORD", "")
    house = tmp_path / "house"
    house.mkdir()
    wheels.shim_torchvision(plain, house)
    (path,) = house.iterdir()
    assert path.name == "torchvision-0.28.0+lab-cp311-cp311-manylinux_2_28_x86_64.whl"
    record_is_right(path)
    with zipfile.ZipFile(path) as zipped:
        assert b"Version: 0.28.0+lab\n" in zipped.read("torchvision-0.28.0+lab.dist-info/METADATA")
        assert zipped.read("torchvision/extension.py").startswith(b"import torch\n")
        assert b"torchvision" in zipped.read("torchvision/extension.py")
        assert zipped.read("torchvision/__init__.py") == b"x = 1\n"
        compile(zipped.read("torchvision/extension.py"), "extension.py", "exec")


@pytest.mark.parametrize(("requires", "refused"), [("nvidia-cudnn-cu13==9", True), ("sympy", False)])
def test_a_cuda_build_of_torch_is_refused_with_the_cure(tmp_path, requires, refused):
    path = tmp_path / "torch-2.13.0-cp311-cp311-manylinux_2_28_x86_64.whl"
    with zipfile.ZipFile(path, "w") as zipped:
        text = "Metadata-Version: 2.1\nName: torch\nVersion: 2.13.0\nRequires-Dist: %s\n" % requires
        zipped.writestr("torch-2.13.0.dist-info/METADATA", text)
    if refused:
        with pytest.raises(LabError, match="LAB_TORCH_INDEX"):
            wheels.no_cuda(path)
        assert not path.exists(), "it is not kept"
    else:
        wheels.no_cuda(path)


@pytest.mark.parametrize(
    ("number", "packages", "placeholders"),
    [("0.5.23", 100, {"sgl-kernel"}), ("0.5.6.post2", 101, {"sgl-kernel", "vllm"})],
)
def test_the_lock_pins_everything_once(number, packages, placeholders):
    pins = wheels.pins(number)
    assert len(pins) == packages
    assert pins["sglang"] == number
    assert pins["torch"].endswith("+cpu")
    target = wheels.target(number)
    assert set(target) - set(pins) == placeholders
    assert [name for name in pins if target[name] != pins[name]] == ["torchvision"]


def test_the_versions_share_what_is_large_and_no_placeholder():
    one, two = (set(wheels.target(number).items()) for number in wheels.VERSIONS)
    assert {name for name, _version in one & two} >= {"torch", "torchvision", "triton"}
    assert not {name for name, _version in one & two} & {"sgl-kernel", "vllm", "sglang"}
    assert len({version.lock for version in wheels.VERSIONS.values()}) == len(wheels.VERSIONS)


def test_each_placeholder_is_a_wheel_that_installs_where_it_is_looked_for(tmp_path):
    for version in wheels.VERSIONS.values():
        for what in version.placeholders:
            wheels.pack(tmp_path, what)
            path = tmp_path / f"{what.name.replace('-', '_')}-{what.version}-py3-none-any.whl"
            record_is_right(path)
            with zipfile.ZipFile(path) as zipped:
                for name in what.files:
                    compile(zipped.read(name), name, "exec")
    assert len(list(tmp_path.iterdir())) == 3


def test_another_version_than_those_that_served_is_refused(tmp_path, monkeypatch):
    monkeypatch.setenv("LAB_CACHE", str(tmp_path))
    with pytest.raises(LabError, match="choose one of 0.5.23, 0.5.6.post2"):
        wheels.fill(common.Settings(), "0.5.22")
    assert not list(tmp_path.iterdir())


def test_one_version_takes_nothing_from_the_other(tmp_path, monkeypatch):
    """A wheelhouse that is whole for one is filled for the other: what neither names goes, all else stays."""
    monkeypatch.setenv("LAB_CACHE", str(tmp_path))
    house = tmp_path / "wheelhouse"
    house.mkdir()
    for number in wheels.VERSIONS:
        for name, version in wheels.target(number).items():
            (house / f"{name.replace('-', '_')}-{version}-py3-none-any.whl").write_bytes(b"x")
    (house / "sglang-0.5.1-py3-none-any.whl").write_bytes(b"x")
    before = {path.name for path in house.iterdir()}
    for number in wheels.VERSIONS:
        wheels.fill(common.Settings(), number)
    after = {path.name for path in house.iterdir()}
    assert before - after == {"sglang-0.5.1-py3-none-any.whl"}
    assert after - before == {"lock.txt", "lock-0.5.6.post2.txt"}
    assert "sglang==0.5.6.post2\n" in (house / "lock-0.5.6.post2.txt").read_text()


@pytest.mark.parametrize("place", ["/var/tmp/lab", "/root/lab", "/opt/x", "/srv", "/tmp", "/"])
def test_a_lab_does_not_lie_where_the_node_covers_it(place, monkeypatch):
    monkeypatch.setenv("LAB", place)
    with pytest.raises(common.LabError, match="LAB="):
        common.Settings()


def test_two_labs_have_two_names(monkeypatch, tmp_path):
    names = set()
    for place in ("/tmp/one-lab", "/tmp/two-lab"):
        monkeypatch.setenv("LAB", place)
        names.add(common.Settings().name)
    assert len(names) == 2


@pytest.mark.parametrize(
    ("variables", "cache"),
    [
        ({"LAB_CACHE": "/c/lab"}, "/c/lab"),
        ({"LLMHOST_CACHE": "/c/ours"}, "/c/ours/lab"),
        ({"XDG_CACHE_HOME": "/c/x"}, "/c/x/llmhost-sglang/lab"),
        ({"HOME": "/c/home"}, "/c/home/.cache/llmhost-sglang/lab"),
    ],
)
def test_where_the_cache_is(variables, cache, monkeypatch):
    for name in ("LAB", "LAB_CACHE", "LLMHOST_CACHE", "XDG_CACHE_HOME", "LAB_CGROUP"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert str(common.Settings().cache) == cache
