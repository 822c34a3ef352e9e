package main

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

type versionInfo struct {
	Version string `json:"version" yaml:"version"`
	Commit  string `json:"commit" yaml:"commit"`
	Go      string `json:"go" yaml:"go"`
	OS      string `json:"os" yaml:"os"`
	Arch    string `json:"arch" yaml:"arch"`
}

func newVersionCmd(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Print the version and how it was built",
		Args:  noArgs,
		RunE: func(*cobra.Command, []string) error {
			info := versionInfo{Version: version, Go: runtime.Version(), OS: runtime.GOOS, Arch: runtime.GOARCH}
			if build, ok := debug.ReadBuildInfo(); ok {
				for _, s := range build.Settings {
					if s.Key == "vcs.revision" {
						info.Commit = s.Value
					}
				}
			}
			return a.print(info, func() error {
				_, err := fmt.Fprintf(a.out, "chaintrail %s (%s, %s/%s)\n", info.Version, info.Go, info.OS, info.Arch)
				return err
			})
		},
	}
	a.outputFlag(cmd)
	return cmd
}
