package wire_test

import (
	"os"
	"testing"

	"go.uber.org/goleak"
)

// childMode tells the test binary to be a stdio server instead of running tests.
const childMode = "WIRE_TEST_CHILD"

func TestMain(m *testing.M) {
	if mode := os.Getenv(childMode); mode != "" {
		os.Exit(runChild(mode))
	}
	goleak.VerifyTestMain(m)
}
