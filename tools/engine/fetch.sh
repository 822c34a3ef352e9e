#!/bin/sh
# Fetches the ClickHouse engine library (about 570 MB unpacked) that internal/engine loads.
# package-lock.json pins version and SHA-512; no install script of a package is run. Running it twice costs nothing.
set -eu
cd "$(dirname "$0")"

case "$(uname -s)-$(uname -m)" in
Linux-x86_64) package=lib-linux-x64-gnu library=libchdb.so ;;
*)
	echo "the embedded engine is pinned for Linux on x86-64 with glibc only; set CHAINTRAIL_LIBCHDB to a libchdb 26.7 of your own" >&2
	exit 1
	;;
esac

command -v npm >/dev/null || { echo "npm is needed to fetch the engine: install Node.js 18 or newer" >&2; exit 1; }

# Two runs at once would unpack over each other.
if [ "${CHAINTRAIL_FETCH_LOCKED:-}" = "" ] && command -v flock >/dev/null; then
	export CHAINTRAIL_FETCH_LOCKED=1
	exec flock .fetch.lock sh ./fetch.sh "$@"
fi

dir="node_modules/@chdb/$package"
if ! { [ -s "$dir/$library" ] && cmp -s package-lock.json "$dir/.fetched"; }; then
	npm ci --ignore-scripts --no-audit --no-fund --loglevel=error
	[ -s "$dir/$library" ] || { echo "$dir/$library is missing after npm ci: was the package skipped for this platform?" >&2; exit 1; }
	cp package-lock.json "$dir/.fetched"
fi
echo "$PWD/$dir/$library"
