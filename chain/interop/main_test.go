package interop_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/chaintrail/chaintrail/chain/chaintest"
	"github.com/chaintrail/chaintrail/chain/interceptor"
)

// The environment makes the test binary a stdio server, so that children are real processes.
const (
	dialEnv    = "CHAINTRAIL_INTEROP_DIAL"    // address of the test, which is the server then
	fixtureEnv = "CHAINTRAIL_INTEROP_FIXTURE" // id of the fixture whose interceptors it serves
	sampleEnv  = "CHAINTRAIL_INTEROP_SAMPLE"  // "lean" or "go-sdk": see sampleServer
	nestedEnv  = "CHAINTRAIL_INTEROP_NESTED"  // see nestedServer
)

func TestMain(m *testing.M) {
	var err error
	switch {
	case os.Getenv(dialEnv) != "":
		err = dialChild(os.Getenv(dialEnv))
	case os.Getenv(fixtureEnv) != "":
		err = fixtureChild(os.Getenv(fixtureEnv))
	case os.Getenv(sampleEnv) != "":
		err = sampleChild(os.Getenv(sampleEnv))
	case os.Getenv(nestedEnv) != "":
		err = nestedChild()
	default:
		goleak.VerifyTestMain(m, goleak.IgnoreTopFunction("net/http.(*persistConn).readLoop"), goleak.IgnoreTopFunction("net/http.(*persistConn).writeLoop"))
		return
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "child:", err)
		os.Exit(1)
	}
}

// dialChild lends its standard input and output to the test: it ends when either side does.
func dialChild(address string) error {
	conn, err := net.Dial("tcp", address)
	if err != nil {
		return err
	}
	go func() { // exits with standard input
		_, _ = io.Copy(conn, os.Stdin)
		_ = conn.(*net.TCPConn).CloseWrite()
	}()
	_, err = io.Copy(os.Stdout, conn)
	return err
}

func fixtureChild(id string) error {
	f, err := fixture(id)
	if err != nil {
		return err
	}
	bound, err := f.Bind()
	if err != nil {
		return err
	}
	server, err := interceptor.New(nil, bound...)
	if err != nil {
		return err
	}
	return server.ServeStdio(context.Background(), os.Stdin, os.Stdout)
}

func fixture(id string) (*chaintest.Fixture, error) {
	all, err := chaintest.Fixtures()
	if err != nil {
		return nil, err
	}
	for i := range all {
		if all[i].ID == id {
			return &all[i], nil
		}
	}
	return nil, fmt.Errorf("no fixture %q", id)
}
