package main

import (
	"fmt"

	"github.com/chaintrail/chaintrail/cmd/chaintrail/config"
	"github.com/chaintrail/chaintrail/internal/keyfile"
	"github.com/chaintrail/chaintrail/schemas/seal"
)

// keys are the secrets of a data directory.
type keys struct {
	pseudonym seal.Key // tenant key: names become pseudonyms
	snapshot  seal.Key // encrypts short-lived copies for deferred work
}

func loadKeys(cfg config.Config) (keys, error) {
	var k keys
	pseudonym, err := keyfile.LoadOrCreate(cfg.Dir("keys", "pseudonym-"+cfg.Tenant+".key"), len(k.pseudonym))
	if err != nil {
		return k, fmt.Errorf("pseudonym key: %w", err)
	}
	snapshot, err := keyfile.LoadOrCreate(cfg.Dir("keys", "snapshot.key"), len(k.snapshot))
	if err != nil {
		return k, fmt.Errorf("snapshot key: %w", err)
	}
	copy(k.pseudonym[:], pseudonym)
	copy(k.snapshot[:], snapshot)
	return k, nil
}
