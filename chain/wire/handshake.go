package wire

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/chaintrail/chaintrail/schemas/jsonx"
)

// ErrHandshake is returned, wrapping each try's error, when a server speaks no generation we know.
var ErrHandshake = errors.New("no common protocol version")

// Server is what the handshake found out.
type Server struct {
	ProtocolVersion string
	Name, Version   string      // of its implementation; may be empty
	Capabilities    jsonx.Value // object; nil when absent
	Instructions    string
	Result          jsonx.Value // whole result of initialize or server/discover

	meta jsonx.Value // members of _meta for each call, nil before 2026-07-28
}

// Extension returns the settings of an extension capability.
func (s *Server) Extension(name string) (jsonx.Value, bool) {
	extensions, _ := jsonx.Lookup(s.Capabilities, "extensions")
	return jsonx.Lookup(extensions, name)
}

// Server returns what Initialize found, nil before.
func (c *Client) Server() *Server { return c.server.Load() }

// Initialize makes the handshake with the generations of ClientOptions.Probe, in order: initialize
// for versions up to 2025-11-25, server/discover from 2026-07-28 on. A generation that the server
// refuses with a JSON-RPC error or an HTTP status 4xx is followed by the next. It may be called
// again after [ErrSessionLost]; the generation that worked is then tried first. Run must be running.
func (c *Client) Initialize(ctx context.Context) (*Server, error) {
	probe := c.opts.Probe
	if len(probe) == 0 {
		probe = []string{Version20251125, Version20260728}
	}
	if known := c.server.Load(); known != nil {
		probe = append([]string{known.ProtocolVersion}, probe...)
	}
	c.server.Store(nil) // the handshake itself carries no _meta of an earlier one
	var failures []error
	tried := map[bool]bool{}
	for _, version := range probe {
		if tried[Modern(version)] {
			continue
		}
		tried[Modern(version)] = true
		server, err := c.handshake(ctx, version)
		if err == nil {
			c.server.Store(server)
			return server, nil
		}
		failures = append(failures, fmt.Errorf("%s: %w", version, err))
		if !refused(err) {
			return nil, errors.Join(failures...)
		}
	}
	return nil, fmt.Errorf("%w: %w", ErrHandshake, errors.Join(failures...))
}

// refused tells whether a failed handshake leaves hope for the other generation.
func refused(err error) bool {
	if _, ok := errors.AsType[*RPCError](err); ok {
		return true
	}
	if e, ok := errors.AsType[*StatusError](err); ok {
		return e.Status >= 400 && e.Status < 500 && e.Status != 401 && e.Status != 403 && e.Status != 429
	}
	return errors.Is(err, ErrSessionLost) || errors.Is(err, errVersion)
}

var errVersion = errors.New("unknown protocol version")

func (c *Client) handshake(ctx context.Context, version string) (*Server, error) {
	if Modern(version) {
		return c.discover(ctx, version)
	}
	return c.initialize(ctx, version)
}

func (c *Client) initialize(ctx context.Context, version string) (*Server, error) {
	params := appendString([]byte(`{"protocolVersion":`), version)
	params = append(params, `,"capabilities":`...)
	params = append(params, c.opts.Capabilities...)
	params = append(params, `,"clientInfo":`...)
	params = append(c.appendInfo(params), '}')
	result, err := c.call(ctx, methodInitialize, params)
	if err != nil {
		return nil, err
	}
	server := readServer(result)
	server.ProtocolVersion, _ = MemberString(result, "protocolVersion")
	if !slices.Contains(LegacyVersions(), server.ProtocolVersion) {
		return nil, fmt.Errorf("%w %.32q in the answer", errVersion, server.ProtocolVersion)
	}
	if err := c.Notify(ctx, MethodInitialized, nil); err != nil {
		return nil, err
	}
	return server, nil
}

func (c *Client) discover(ctx context.Context, version string) (*Server, error) {
	members := appendString([]byte(`"`+MetaProtocolVersion+`":`), version)
	members = append(members, `,"`+MetaClientInfo+`":`...)
	members = c.appendInfo(members)
	members = append(members, `,"`+MetaClientCapabilities+`":`...)
	members = append(members, c.opts.Capabilities...)
	result, err := c.call(ctx, MethodDiscover, addMeta(nil, members))
	if err != nil {
		return nil, err
	}
	supported, _ := Member(result, "supportedVersions")
	for v := range jsonx.Elements(supported) {
		if s, _ := jsonx.StringOf(v); s == version {
			server := readServer(result)
			server.ProtocolVersion, server.meta = version, members
			return server, nil
		}
	}
	return nil, fmt.Errorf("%w: the server does not offer %s", errVersion, version)
}

func readServer(result jsonx.Value) *Server {
	s := &Server{Result: result}
	s.Capabilities, _ = Member(result, "capabilities")
	s.Instructions, _ = MemberString(result, "instructions")
	info, ok := Member(result, "serverInfo")
	if !ok {
		meta, _ := Member(result, "_meta")
		info, _ = Member(meta, MetaServerInfo)
	}
	s.Name, _ = MemberString(info, "name")
	s.Version, _ = MemberString(info, "version")
	return s
}

func (c *Client) appendInfo(dst []byte) []byte {
	dst = appendString(append(dst, `{"name":`...), c.opts.Name)
	dst = appendString(append(dst, `,"version":`...), c.opts.Version)
	return append(dst, '}')
}

// withMeta adds what 2026-07-28 wants in each call.
func (c *Client) withMeta(params jsonx.Value) jsonx.Value {
	server := c.server.Load()
	if server == nil || server.meta == nil {
		return params
	}
	return addMeta(params, server.meta)
}

// addMeta puts the members in front of those of params._meta; both are made if they are missing.
func addMeta(params, members jsonx.Value) jsonx.Value {
	old, _ := Member(params, "_meta")
	meta := make([]byte, 0, len(members)+len(old)+2)
	meta = append(append(meta, '{'), members...)
	for m := range jsonx.Members(old) {
		switch string(m.Name) {
		case MetaProtocolVersion, MetaClientInfo, MetaClientCapabilities: // ours are the session's
			continue
		}
		meta = appendString(append(meta, ','), string(m.Name))
		meta = append(append(meta, ':'), m.Value...)
	}
	return WithMember(params, "_meta", append(meta, '}'))
}
