package main

import (
	"context"
	"fmt"
	"os/exec"
	"time"

	"github.com/chaintrail/chaintrail/sinks/clickhouse"
)

// maxClockSkew between this machine and the store is tolerated in silence.
const maxClockSkew = 2 * time.Second

// pingStore says what answers at dsn; a clock that differs is an error, since both write times.
func pingStore(ctx context.Context, dsn string) (string, error) {
	conn, err := clickhouse.Open(dsn)
	if err != nil {
		return "", usage(fmt.Errorf("clickhouse.dsn: %w", err))
	}
	defer conn.Close() //nolint:errcheck // read only
	if err := clickhouse.CheckVersion(conn); err != nil {
		return "", err
	}
	var now time.Time
	var version string
	if err := conn.QueryRow(ctx, "SELECT now64(6, 'UTC'), version()").Scan(&now, &version); err != nil {
		return "", err
	}
	if skew := time.Since(now).Abs(); skew > maxClockSkew {
		return "", fmt.Errorf("the clocks of this machine and of ClickHouse %s differ by %s", version, skew.Round(time.Second))
	}
	return "ClickHouse " + version, nil
}

func checkCommand(name, program string) finding {
	path, err := exec.LookPath(program)
	if err != nil {
		return finding{name, "fail", err.Error(), "install " + program + ", or correct the command"}
	}
	return finding{Check: name, Status: "ok", Detail: path}
}
