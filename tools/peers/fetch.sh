#!/bin/sh
# Installs the official MCP servers, clients and the conformance suite that tests talk to.
# package-lock.json pins versions and SHA-512; no install script runs. Running it twice costs nothing.
set -eu
cd "$(dirname "$0")"
command -v npm >/dev/null || { echo "npm is needed to fetch the test peers: install Node.js 18 or newer" >&2; exit 1; }
if [ "${CHAINTRAIL_FETCH_LOCKED:-}" = "" ] && command -v flock >/dev/null; then
	export CHAINTRAIL_FETCH_LOCKED=1
	exec flock .fetch.lock sh ./fetch.sh "$@"
fi
if ! cmp -s package-lock.json node_modules/.fetched; then
	# Not npm ci: it refuses a lock file that lacks an optional Windows-only package which is not published
	# everywhere. Versions and hashes of the lock file hold all the same.
	npm install --no-save --ignore-scripts --no-audit --no-fund --loglevel=error
	cp package-lock.json node_modules/.fetched
fi
