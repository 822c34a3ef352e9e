package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/chaintrail/chaintrail/chain/builtin"
	"github.com/chaintrail/chaintrail/cmd/chaintrail/config"
)

// interceptorFlag adds --interceptor: interceptor servers without a configuration file.
func (a *app) interceptorFlag(cmd *cobra.Command) {
	cmd.Flags().StringArrayVar(&a.interceptors, "interceptor", nil,
		"interceptor server, beside the configured ones: a URL, a command line or a built-in; repeatable")
}

// addFlagged lays the servers of --interceptor behind the configured ones.
func (a *app) addFlagged(cfg *config.Config) error {
	for _, spec := range a.interceptors {
		host, err := flaggedHost(spec)
		if err != nil {
			return usage(withHint(fmt.Errorf("--interceptor %q: %w", spec, err), "give a URL, or a command line such as --interceptor './guard --strict'"))
		}
		host.Name = freeName(host.Name, cfg.Interceptors)
		cfg.Interceptors = append(cfg.Interceptors, host)
	}
	return nil
}

// flaggedHost reads the short form of an interceptor server.
func flaggedHost(spec string) (config.Host, error) {
	if strings.HasPrefix(spec, "http://") || strings.HasPrefix(spec, "https://") {
		if !config.ValidURL(spec) {
			return config.Host{}, errors.New("is not an http or https URL")
		}
		return config.Host{Name: stdioName(spec, nil), URL: spec}, nil
	}
	if strings.HasPrefix(spec, builtin.Namespace) {
		if _, err := builtin.New(spec, nil); err != nil {
			return config.Host{}, err
		}
		return config.Host{Name: strings.TrimPrefix(spec, builtin.Namespace), Builtin: spec}, nil
	}
	command, err := splitCommand(spec)
	if err != nil {
		return config.Host{}, err
	}
	return config.Host{Name: stdioName("", command), Command: command}, nil
}

// freeName numbers a name that is taken.
func freeName(name string, hosts []config.Host) string {
	taken := func(name string) bool {
		for _, h := range hosts {
			if h.Name == name {
				return true
			}
		}
		return false
	}
	free := name
	for i := 2; taken(free); i++ {
		suffix := fmt.Sprintf("-%d", i)
		free = name[:min(len(name), 63-len(suffix))] + suffix
	}
	return free
}

// splitCommand splits a command line as a shell does, without expanding anything: words are parted by
// white space, quotation marks of both kinds group, a backslash takes the next character as it is.
func splitCommand(line string) ([]string, error) {
	var words []string
	var word strings.Builder
	open, quote, escaped := false, rune(0), false
	for _, r := range line {
		switch {
		case escaped:
			if quote == '"' && r != '"' && r != '\\' {
				word.WriteByte('\\')
			}
			word.WriteRune(r)
			escaped = false
		case r == '\\' && quote != '\'':
			open, escaped = true, true
		case quote != 0 && r == quote:
			quote = 0
		case quote != 0:
			word.WriteRune(r)
		case r == '\'' || r == '"':
			open, quote = true, r
		case r == ' ' || r == '\t' || r == '\n':
			if open {
				words = append(words, word.String())
				word.Reset()
			}
			open = false
		default:
			word.WriteRune(r)
			open = true
		}
	}
	switch {
	case quote != 0:
		return nil, fmt.Errorf("a quotation mark %c is not closed", quote)
	case escaped:
		return nil, errors.New("ends in a backslash")
	}
	if open {
		words = append(words, word.String())
	}
	if len(words) == 0 || words[0] == "" {
		return nil, errors.New("names no command")
	}
	return words, nil
}
