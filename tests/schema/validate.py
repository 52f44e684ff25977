#!/usr/bin/env python3
"""Validates YAML files against a JSON Schema, as an editor does.

validate.py SCHEMA FILE...   prints a JSON object: each file, and what is wrong with it
"""

import json
import sys

import jsonschema
import yaml


def with_text_keys(value):
    """JSON has no other keys than texts."""
    if isinstance(value, dict):
        return {str(key): with_text_keys(each) for key, each in value.items()}
    return [with_text_keys(each) for each in value] if isinstance(value, list) else value


def main():
    with open(sys.argv[1], encoding="utf-8") as file:
        schema = json.load(file)
    validator_class = jsonschema.validators.validator_for(schema)
    validator_class.check_schema(schema)
    validator = validator_class(schema)
    found = {}
    for path in sys.argv[2:]:
        with open(path, encoding="utf-8") as file:
            try:
                document = with_text_keys(yaml.safe_load(file))
            except yaml.YAMLError as error:
                found[path] = [f"no YAML: {error}"]
                continue
        found[path] = ["/".join(map(str, error.absolute_path)) + ": " + error.message for error in validator.iter_errors(document)]
    json.dump(found, sys.stdout)


main()
