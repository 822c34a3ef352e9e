package engine

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
)

// EnvLibrary names the environment variable with the path of the engine's library.
const EnvLibrary = "CHAINTRAIL_LIBCHDB"

const libraryName = "libchdb.so"

// FindLibrary returns the path of the engine's library: the first that exists of
//
//  1. explicit, the value of a flag or of the configuration,
//  2. the environment variable [EnvLibrary],
//  3. <dataDir>/lib/libchdb.so,
//  4. lib/libchdb.so and ../lib/chaintrail/libchdb.so beside the executable,
//  5. tools/engine/node_modules/… beside the executable or one folder above, where `make engine` puts it in a checkout.
//
// A path named by 1 or 2 must exist: another version must not be taken in its place without a word. The working
// directory is never searched, since code would be loaded from wherever the program happens to be started.
func FindLibrary(explicit, dataDir string, getenv func(string) string) (string, error) {
	if explicit != "" {
		return named(explicit, "the path that was given")
	}
	if path := getenv(EnvLibrary); path != "" {
		return named(path, EnvLibrary)
	}
	var candidates []string
	if dataDir != "" {
		candidates = append(candidates, filepath.Join(dataDir, "lib", libraryName))
	}
	if executable, err := os.Executable(); err == nil {
		dir := filepath.Dir(executable)
		candidates = append(candidates, filepath.Join(dir, "lib", libraryName), filepath.Join(dir, "..", "lib", "chaintrail", libraryName))
		candidates = append(candidates, checkouts(dir, 2)...)
	}
	for _, path := range candidates {
		if isFile(path) && complete(path) {
			return path, nil
		}
	}
	return "", fmt.Errorf("%w; looked at %s (run: make engine, or set %s)", ErrLibraryMissing, strings.Join(candidates, ", "), EnvLibrary)
}

// FindCheckoutLibrary looks only in dir and the folders above it for what `make engine` fetched; for tests.
func FindCheckoutLibrary(dir string) (string, error) {
	for _, path := range checkouts(dir, 32) {
		if isFile(path) && complete(path) {
			return path, nil
		}
	}
	return "", fmt.Errorf("%w above %s (run: make engine, or set %s)", ErrLibraryMissing, dir, EnvLibrary)
}

func named(path, source string) (string, error) {
	if !isFile(path) {
		return "", fmt.Errorf("%w: %s, named by %s, is no file (run: make engine)", ErrLibraryMissing, path, source)
	}
	return path, nil
}

// checkouts lists where the library lies if dir, or one of the folders above it, is a source checkout. Few levels are
// tried for an executable: a folder far above it may belong to somebody else.
func checkouts(dir string, levels int) []string {
	platform := map[string]string{"linux/amd64": "lib-linux-x64-gnu"}[runtime.GOOS+"/"+runtime.GOARCH]
	if platform == "" {
		return nil
	}
	var paths []string
	for range levels {
		paths = append(paths, filepath.Join(dir, "tools", "engine", "node_modules", "@chdb", platform, libraryName))
		parent := filepath.Dir(dir)
		if parent == dir {
			break
		}
		dir = parent
	}
	return paths
}

// fetchedMark is what tools/engine/fetch.sh leaves beside the library when all of it is there.
const fetchedMark = ".fetched"

// complete reports whether a library in a checkout was fetched to its end: half of one crashes the process that loads it.
func complete(path string) bool {
	dir := filepath.Dir(path)
	return filepath.Base(filepath.Dir(dir)) != "@chdb" || isFile(filepath.Join(dir, fetchedMark))
}

func isFile(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}
