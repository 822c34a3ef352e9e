package engine

import (
	"errors"
	"log/slog"
	"time"

	"github.com/chaintrail/chaintrail/internal/retry"
)

// Deadlines of a [Supervisor]; the stop takes at most the sum of the last three.
const (
	DefaultReadyTimeout = 60 * time.Second
	// stopByStdin is how long the child may take after its standard input was closed: it drains for up to ten seconds.
	stopByStdin   = 15 * time.Second
	stopBySIGTERM = 5 * time.Second
	stopBySIGKILL = 5 * time.Second
)

// SupervisorConfig tells a [Supervisor] what to run.
type SupervisorConfig struct {
	// Command is required: the program and its arguments, such as the own executable with "engine --data DIR". It must
	// call [Serve] with a [ServeConfig] filled by FromEnv, standard input and standard output.
	Command []string
	// Env are further NAME=VALUE pairs for the child. It inherits only what it needs to run, none of the parent's secrets.
	Env []string
	// ReadyTimeout bounds the time from the start of a child to its ready line; zero means DefaultReadyTimeout.
	ReadyTimeout time.Duration
	// Restart says how fast a child that died is started again. Its MaxElapsed and MaxTries should be zero.
	Restart retry.Policy
	Log     *slog.Logger // optional
}

// Validate reports what is missing.
func (c *SupervisorConfig) Validate() error {
	if len(c.Command) == 0 {
		return errors.New("the command of the engine process is empty")
	}
	return nil
}
