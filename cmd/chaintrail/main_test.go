package main

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/chaintrail/chaintrail/internal/engine"
	"github.com/chaintrail/chaintrail/internal/engine/enginetest"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){
		"chaintrail": func() { os.Exit(run(os.Args[1:])) },
	})
}

// TestScripts runs the command line as its users do; every script has a data directory of its own.
func TestScripts(t *testing.T) {
	library := enginetest.Library(t)
	goEnv := goEnvironment(t)
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script",
		Cmds: map[string]func(ts *testscript.TestScript, neg bool, args []string){
			"ready": cmdReady, "reload": cmdReload, "signal": cmdSignal, "eventually": cmdEventually, "field": cmdField,
			"readme-program": cmdReadmeProgram, "forge": cmdForge, "proofs": cmdProofs,
		},
		Setup: func(env *testscript.Env) error {
			env.Setenv(engine.EnvLibrary, library)
			env.Setenv("CHAINTRAIL_DATA", env.WorkDir+"/data")
			env.Setenv("HOME", env.WorkDir)
			env.Vars = append(env.Vars, goEnv...)
			return nil
		},
	})
}

// goEnvironment keeps the caches of the go command although a script has a home of its own.
func goEnvironment(t *testing.T) []string {
	t.Helper()
	vars := []string{"GOFLAGS=-modcacherw"}
	for _, name := range []string{"GOCACHE", "GOMODCACHE", "GOPROXY", "GOTOOLCHAIN"} {
		value, err := exec.CommandContext(t.Context(), "go", "env", name).Output()
		if err != nil {
			t.Fatalf("go env %s: %v", name, err)
		}
		vars = append(vars, name+"="+strings.TrimSpace(string(value)))
	}
	return vars
}
