# SPDX-License-Identifier: GPL-3.0-or-later
"""AWX without AWX: its own modules make the job templates on a stand-in for its API, and patterns fit their schema."""

from __future__ import annotations

import json
import os
import pathlib
from collections.abc import Iterator
from typing import Any

import fake_awx
import jsonschema
import patterns
import pytest
import yaml
from conftest import AWX, INSTALLED, ROOT, run

# The last ansible-lint with the schema of patterns, which is what the Galaxy importer checked them with.
SCHEMA_FROM = "ansible-lint==25.7.0"
NAMES = patterns.playbooks(ROOT)


@pytest.fixture
def awx() -> Iterator[fake_awx.Awx]:
    server = fake_awx.Awx()
    yield server
    server.close()


def play(awx: fake_awx.Awx, playbook: str, *options: str) -> str:
    env = {
        **os.environ,
        "ANSIBLE_COLLECTIONS_PATH": AWX,
        "CONTROLLER_HOST": awx.url,
        "CONTROLLER_OAUTH_TOKEN": "not-checked",
        "CONTROLLER_VERIFY_SSL": "false",
    }
    return run("ansible-playbook", "-i", "localhost,", ROOT / "extensions/awx" / playbook, *options, env=env)


def test_the_job_templates_are_made_with_their_surveys(awx: fake_awx.Awx) -> None:
    environment = "llmhost_awx_execution_environment=llmhost.sglang execution environment"
    play(awx, "job_templates.yml", "-e", json.dumps(dict([environment.split("=")])))
    made = {item["name"]: item for item in awx.objects["job_templates"]}
    assert set(made) == {"SGLang: " + name.replace("_", " ") for name in NAMES}
    assert awx.refused == []
    for name in NAMES:
        item = made["SGLang: " + name.replace("_", " ")]
        assert (ROOT / item["playbook"]).is_file(), "the path must exist in a project that is this repository"
        pattern = json.loads((ROOT / ("extensions/patterns/%s/meta/pattern.json" % name)).read_text())
        survey = pattern["aap_resources"]["controller_job_templates"][0]["survey"]
        assert awx.surveys[item["id"]] == survey


def test_the_stand_in_refuses_what_awx_refuses(awx: fake_awx.Awx) -> None:
    template = awx.add("job_templates", {"name": "x"})
    code, answer = awx.post(template["related"]["survey_spec"], {"name": "", "description": "", "spec": []})
    assert code == 400 and "no question" in answer["error"]


def test_the_credential_type_is_made_and_its_injectors_are_awxs_to_fill_in(awx: fake_awx.Awx) -> None:
    play(awx, "credential_type.yml")
    made = awx.objects["credential_types"][0]
    fields = {field["id"]: field for field in made["inputs"]["fields"]}
    assert all(field["secret"] for field in fields.values())
    assert {value.strip("{} ") for value in made["injectors"]["env"].values()} == set(fields)


@pytest.fixture(scope="session")
def schema(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("lint")
    run(os.environ["UV"], "pip", "install", "-q", "--no-deps", "--target", folder, SCHEMA_FROM)
    return dict(json.loads((folder / "ansiblelint/schemas/pattern.json").read_text()))


@pytest.mark.parametrize("name", NAMES)
def test_the_pattern_fits_its_schema(name: str, schema: dict[str, Any]) -> None:
    home = pathlib.Path(INSTALLED) / "ansible_collections/llmhost/sglang/extensions/patterns" / name
    pattern = json.loads((home / "meta/pattern.json").read_text())
    jsonschema.Draft202012Validator(schema).validate(pattern)
    assert pattern["name"] == name
    assert (home / "README.md").is_file()
    for template in pattern["aap_resources"]["controller_job_templates"]:
        handed = yaml.safe_load((home / "playbooks" / template["playbook"]).read_text())
        assert handed[0]["ansible.builtin.import_playbook"] == "llmhost.sglang." + name


def test_the_schema_sees_a_pattern_that_does_not_fit(schema: dict[str, Any]) -> None:
    pattern = json.loads((ROOT / "extensions/patterns/deploy/meta/pattern.json").read_text())
    pattern["aap_resources"]["controller_job_templates"][0]["survey"]["spec"][0]["default"] = 3
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.Draft202012Validator(schema).validate(pattern)
