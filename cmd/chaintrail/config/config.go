// Package config reads chaintrail.yaml: strictly, with errors that name the key, the value and the
// line, over defaults that need no file at all.
package config

import (
	"net/url"
	"path/filepath"
	"slices"
	"time"
)

// Config is the whole of chaintrail.yaml.
type Config struct {
	Data         string        `yaml:"data"`          // data directory; relative to the working directory
	Tenant       string        `yaml:"tenant"`        // whose traffic this is
	Gateway      Gateway       `yaml:"gateway"`       // the proxy in the request path
	Backends     []Backend     `yaml:"backends"`      // MCP servers behind it
	Interceptors []Host        `yaml:"interceptors"`  // interceptor servers
	Journal      Journal       `yaml:"journal"`       // the durable local journal
	Policy       []PolicyRule  `yaml:"policy"`        // what is kept of bodies, first match wins
	Snapshots    string        `yaml:"snapshots"`     // allow | deny: encrypted short-lived copies for deferred work
	Bus          Bus           `yaml:"bus"`           // NATS JetStream
	ClickHouse   ClickHouse    `yaml:"clickhouse"`    // where rows go
	Sinks        []Sink        `yaml:"sinks"`         // further destinations
	Seal         Seal          `yaml:"seal"`          // the signed ledger over all events
	Log          Log           `yaml:"log"`           //
	Drain        time.Duration `yaml:"drain_timeout"` // how long an ordered stop may take, per stage
}

// Gateway configures the proxy.
type Gateway struct {
	Name          string        `yaml:"name"`                // recorded with every event
	Listen        string        `yaml:"listen"`              // host:port of the HTTP front
	Metrics       string        `yaml:"metrics"`             // host:port for /metrics, /healthz, /readyz; empty: none
	MaxBody       Bytes         `yaml:"max_body"`            // largest message
	MaxDepth      int           `yaml:"max_depth"`           // deepest JSON nesting
	ChainTimeout  time.Duration `yaml:"chain_timeout"`       // for all interceptors of one phase
	Deny          Deny          `yaml:"deny"`                // what a caller learns of a block
	Events        []string      `yaml:"events"`              // patterns of events that are chained at all; empty: every one
	ServerInfo    ServerInfo    `yaml:"server_info"`         // what clients are told of the servers
	RepairSchemas string        `yaml:"repair_schemas"`      // auto | always | never
	Expose        bool          `yaml:"expose_interceptors"` // clients may list and invoke the configured interceptors themselves
	Trace         string        `yaml:"trace"`               // of requests that belong to no trace: header | forward | off
	Resolve       []ResolveRule `yaml:"resolve"`             // which requests go through which dynamic interceptor servers
	ResolveIdle   time.Duration `yaml:"resolve_idle"`        // a dynamic interceptor server is let go when unused for so long
	Duplicates    string        `yaml:"duplicates"`          // interceptors of one name on several servers: refuse | keep | first
	Breaker       Breaker       `yaml:"breaker"`             // when an interceptor that does not answer is not asked any more
	RefreshEvery  time.Duration `yaml:"refresh"`             // how often interceptor lists are read again
	Principal     Principal     `yaml:"principal"`           // of requests that name none; asserted, not verified
	PrincipalFrom string        `yaml:"principal_header"`    // request header that names the verified caller, set by the proxy in front
	AllowOrigins  []string      `yaml:"allow_origins"`       // browser origins beside loopback
}

// Principal is who is behind a request, as this configuration says.
type Principal struct {
	Type   string            `yaml:"type"` // user | service; empty: anonymous
	ID     string            `yaml:"id"`
	Claims map[string]string `yaml:"claims"`
}

// Deny says how callers are told that interceptors blocked them.
type Deny struct {
	As     string `yaml:"as"`     // error | result: for tools/call, a result with isError in place of a JSON-RPC error
	Detail string `yaml:"detail"` // sep (interceptors, severities and what validators said) | generic (only that it was blocked)
}

// ServerInfo replaces what a server says of itself; empty members stay.
type ServerInfo struct {
	Name    string `yaml:"name"`
	Version string `yaml:"version"`
}

// ResolveRule chooses dynamic interceptor servers for requests. Conditions are patterns in which "*" stands for
// any text; all that are set have to hold.
type ResolveRule struct {
	Tenant       []string          `yaml:"tenant"`
	Principal    []string          `yaml:"principal"` // ids of verified callers
	Header       map[string]string `yaml:"header"`
	Server       []string          `yaml:"server"` // backends
	Event        []string          `yaml:"event"`
	Tool         []string          `yaml:"tool"`         // also prompt names and resource URIs
	Interceptors []string          `yaml:"interceptors"` // names of servers with dynamic: true
	Alone        bool              `yaml:"alone"`        // without the interceptors that are in force for all
}

// Breaker says when an interceptor in the path is given up for a while.
type Breaker struct {
	Failures int           `yaml:"failures"`  // consecutive timeouts, malformed answers and broken connections
	Pause    time.Duration `yaml:"pause"`     // before it is probed
	MaxPause time.Duration `yaml:"max_pause"` // the pause doubles with each failed probe, up to this
}

// Backend is an MCP server: a URL or a command.
type Backend struct {
	Name      string            `yaml:"name"` // path on the HTTP front: /<name>/mcp
	URL       string            `yaml:"url"`
	Transport string            `yaml:"transport"` // of the URL: http | sse (that of 2024-11-05); empty: found out
	Headers   map[string]string `yaml:"headers"`
	Command   []string          `yaml:"command"`
	Env       map[string]string `yaml:"env"`
	Dir       string            `yaml:"dir"`
	Shared    bool              `yaml:"shared"` // one child for all sessions
	Bridge    string            `yaml:"bridge"` // where client and server speak different generations: auto | always | off; empty: auto
}

// Host is an interceptor server: a URL, a command, or a built-in interceptor in this process.
type Host struct {
	Name         string              `yaml:"name"`
	Dynamic      bool                `yaml:"dynamic"` // in force only where a rule of gateway.resolve names it
	URL          string              `yaml:"url"`
	Headers      map[string]string   `yaml:"headers"`
	Command      []string            `yaml:"command"`
	Env          map[string]string   `yaml:"env"`
	Builtin      string              `yaml:"builtin"`   // name, such as chaintrail/pii-redactor
	As           string              `yaml:"as"`        // of a built-in: name in place of its own
	Config       map[string]any      `yaml:"config"`    // of a built-in
	Envelope     bool                `yaml:"envelope"`  // send {method, params} instead of bare params
	Timeout      time.Duration       `yaml:"timeout"`   // default for its interceptors
	Only         []string            `yaml:"only"`      // patterns of the interceptor names that are wanted; empty: all
	Overrides    map[string]Override `yaml:"overrides"` // by interceptor name
	Interceptors map[string]any      `yaml:"configs"`   // configuration by interceptor name, sent with each call
}

// Override narrows or changes what a descriptor says.
type Override struct {
	Mode     string        `yaml:"mode"` // active | audit
	FailOpen *bool         `yaml:"fail_open"`
	Priority *int32        `yaml:"priority"`
	Timeout  time.Duration `yaml:"timeout"`
	Retries  *int          `yaml:"retries"` // deferred work: tries after the first
	Hooks    []Hook        `yaml:"hooks"`   // narrower only
	Enforce  *Enforce      `yaml:"enforce"` // active for these only, in audit mode for the rest
	Sample   *float64      `yaml:"sample"`  // sinks and audit mode: percentage of the messages
	Budget   time.Duration `yaml:"budget"`  // sinks and audit mode: time of invocations in a minute; 0: no bound
}

// Enforce is a canary: any condition that holds is enough, none means nobody.
type Enforce struct {
	Percent    float64  `yaml:"percent"` // of sessions, or else of principals
	Tenants    []string `yaml:"tenants"` // patterns, as are the next two
	Tools      []string `yaml:"tools"`   // also prompt names and resource URIs
	Principals []string `yaml:"principals"`
}

// Hook is a SEP-2624 hook.
type Hook struct {
	Events []string `yaml:"events"`
	Phase  string   `yaml:"phase"` // request | response | both
}

// Journal configures the outbox.
type Journal struct {
	Durability Durability    `yaml:"durability"`
	MaxBytes   Bytes         `yaml:"max_bytes"`     // of all journals of this data directory
	Segment    Bytes         `yaml:"segment_bytes"` //
	OnFull     string        `yaml:"on_full"`       // fail | block | shed
	Keep       time.Duration `yaml:"keep"`          // at least, after stored and sealed
}

// Durability is process (survives kill -9) or disk (fdatasync) for each class of events.
type Durability struct {
	Request  string `yaml:"request"`
	Outcome  string `yaml:"outcome"`
	Deferred string `yaml:"deferred"`
	Control  string `yaml:"control"`
}

// PolicyRule decides what is kept of open items; empty fields match everything.
type PolicyRule struct {
	Event   []string `yaml:"event"`
	Server  []string `yaml:"server"`
	Tool    []string `yaml:"tool"`
	Phase   []string `yaml:"phase"`
	Outcome []string `yaml:"outcome"`
	Role    []string `yaml:"role"` // payload.before, payload.after, context, detail, …
	Keep    string   `yaml:"keep"` // none | digest | redacted | full
	Cap     Bytes    `yaml:"cap"`  // kept copies are cut here; 0: not
}

// Bus configures NATS JetStream.
type Bus struct {
	URL        string `yaml:"url"`         // empty: embedded
	TokenFile  string `yaml:"token_file"`  // mode 0600
	CredsFile  string `yaml:"credentials"` // NATS credentials file
	Listen     string `yaml:"listen"`      // embedded: loopback host:port for other processes; port 0 picks one
	Replicas   int    `yaml:"replicas"`
	MaxBytes   Bytes  `yaml:"max_bytes"`   // per stream
	SyncAlways bool   `yaml:"sync_always"` // embedded: fsync before each acknowledgement
}

// ClickHouse configures the store.
type ClickHouse struct {
	DSN     string `yaml:"dsn"`     // clickhouse:// or http://; empty: embedded engine
	Library string `yaml:"library"` // path of libchdb for the embedded engine
	Off     bool   `yaml:"off"`     // no store at all
	// MaxMemory bounds the embedded engine; 0: a third of the machine's memory, at most 4 GiB.
	MaxMemory Bytes `yaml:"max_memory"`
}

// Sink is a further destination of the sealed events.
type Sink struct {
	Type   string `yaml:"type"` // file | stdout
	Path   string `yaml:"path"`
	Rotate Bytes  `yaml:"rotate_bytes"`
}

// Seal configures the ledger.
type Seal struct {
	Off  bool   `yaml:"off"`  // nobody seals: set it in all processes of a bus, for none waits then
	Name string `yaml:"name"` // of the ledger and its keys, such as audit.example.com; counts when the first key is made
	// PassphraseFile (mode 0600), else $CHAINTRAIL_SEAL_PASSPHRASE, encrypts private keys.
	PassphraseFile string        `yaml:"passphrase_file"`
	Every          time.Duration `yaml:"every"`  // between two signed heads
	Events         int           `yaml:"events"` // a head is signed earlier after so many
	Anchors        []Anchor      `yaml:"anchors"`
}

// Anchor is a place outside that keeps signed heads.
type Anchor struct {
	Name       string `yaml:"name"`
	Type       string `yaml:"type"`        // file | webhook
	Path       string `yaml:"path"`        // file: heads are appended
	URL        string `yaml:"url"`         // webhook: heads are posted
	SecretFile string `yaml:"secret_file"` // webhook: key of the HMAC, mode 0600
}

// Log configures the process log.
type Log struct {
	Level  string `yaml:"level"`  // debug | info | warn | error
	Format string `yaml:"format"` // auto | text | json
}

// Default is the configuration without a file.
func Default() Config {
	return Config{
		Data:   ".chaintrail",
		Tenant: "default",
		Gateway: Gateway{
			Name: "main", Listen: "127.0.0.1:8787", MaxBody: 64 << 20, MaxDepth: 1000,
			ChainTimeout: 30 * time.Second, Deny: Deny{As: "error", Detail: "sep"},
			RepairSchemas: "auto", Trace: "header", ResolveIdle: 5 * time.Minute, Duplicates: "refuse",
			Breaker: Breaker{Failures: 5, Pause: time.Second, MaxPause: time.Minute}, RefreshEvery: 30 * time.Second,
		},
		Journal: Journal{
			Durability: Durability{Request: "process", Outcome: "process", Deferred: "process", Control: "process"},
			MaxBytes:   1 << 30, Segment: 64 << 20, OnFull: "fail", Keep: 10 * time.Minute,
		},
		Snapshots: "allow",
		Bus:       Bus{Listen: "127.0.0.1:0", Replicas: 1, MaxBytes: 4 << 30},
		Seal:      Seal{Every: 10 * time.Second, Events: 1000},
		Log:       Log{Level: "info", Format: "auto"},
		Drain:     10 * time.Second,
	}
}

// Dir returns a path inside the data directory.
func (c Config) Dir(elem ...string) string {
	return filepath.Join(append([]string{c.Data}, elem...)...)
}

// Demo reports whether nothing was configured to stand behind the gateway.
func (c Config) Demo() bool { return len(c.Backends) == 0 }

func natsURL(s string) bool {
	u, err := url.Parse(s)
	return err == nil && slices.Contains([]string{"nats", "tls", "ws", "wss"}, u.Scheme) && u.Host != ""
}

// ValidURL reports whether s is an http or https URL with a host.
func ValidURL(s string) bool {
	u, err := url.Parse(s)
	return err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Host != ""
}
