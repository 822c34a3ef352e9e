package main

import (
	"os"
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
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script",
		Cmds: map[string]func(ts *testscript.TestScript, neg bool, args []string){
			"ready": cmdReady, "signal": cmdSignal, "eventually": cmdEventually, "field": cmdField,
		},
		Setup: func(env *testscript.Env) error {
			env.Setenv(engine.EnvLibrary, library)
			env.Setenv("CHAINTRAIL_DATA", env.WorkDir+"/data")
			env.Setenv("HOME", env.WorkDir)
			return nil
		},
	})
}
