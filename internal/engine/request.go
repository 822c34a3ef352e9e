package engine

import (
	"io"
	"mime"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/chaintrail/chaintrail/internal/engine/chdb"
)

// request is what one HTTP request asks for.
type request struct {
	kind     kind
	sql      string // without the FORMAT clause for an insert
	format   string // of the result, or of the data for an insert
	data     io.Reader
	params   []chdb.Param
	settings map[string]string // without readonly
	readonly string            // "" if the request did not say
	database string
	queryID  string
	compress bool   // the result as compressed native frames
	method   string // of that compression
	revision string // of the native protocol that the client asked for, "" if it did not
}

// kind is how a statement has to be run.
type kind int

const (
	kindWhole  kind = iota // run to its end, then answer
	kindStream             // answer in chunks
	kindInsert             // feed with data
	kindHello              // the driver's first query, see hello
)

// Patterns for the text of statements. They only choose the way to run a statement; the engine's parser decides what it
// means, and a wrong guess ends in an error, never in another statement.
var (
	insertFormat = regexp.MustCompile(`(?is)^(\s*INSERT\b.*)\bFORMAT\s+([A-Za-z0-9_]+)\s*;?\s*$`)
	anyFormat    = regexp.MustCompile(`(?i)\bFORMAT\s+([A-Za-z0-9_]+)`)
	settingName  = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_.]{0,127}$`)
	formatName   = regexp.MustCompile(`^[A-Za-z0-9_]{1,64}$`)
	leading      = regexp.MustCompile(`^(?s:\s|--[^\n]*(?:\n|$)|#[^\n]*(?:\n|$)|/\*.*?\*/|\()*([A-Za-z]*)`)
)

// streamable are the formats whose chunks, put one after the other, are the whole: no header, no closing bracket.
var streamable = []string{
	"native", "rowbinary", "tabseparated", "tsv", "tabseparatedraw", "tsvraw", "csv", "jsoneachrow", "jsonlines", "ndjson",
	"jsoncompacteachrow", "jsonstringseachrow", "jsoncompactstringseachrow", "lineasstring", "null",
}

// parseRequest reads the parameters, and the statement if it is in the body.
func parseRequest(r *http.Request) (*request, error) {
	query, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return nil, refuse(http.StatusBadRequest, codeBadArguments, "BAD_ARGUMENTS", "The query string of the request is malformed")
	}
	req := &request{settings: map[string]string{}, format: "TabSeparated"}
	text, err := req.parameters(query, r.Header)
	if err != nil {
		return nil, err
	}
	if r.Method == http.MethodGet {
		req.readonly = "1" // as a real server does: a link must not change anything
	}
	body, err := requestBody(r, query.Get("decompress") == "1")
	if err != nil {
		return nil, err
	}
	if match := insertFormat.FindStringSubmatch(text); match != nil {
		req.kind, req.sql, req.format, req.data = kindInsert, match[1], match[2], body
		return req, nil
	}
	rest, err := io.ReadAll(io.LimitReader(body, maxStatement+1))
	if err != nil {
		return nil, refuse(http.StatusBadRequest, codeBadArguments, "BAD_ARGUMENTS", "The statement cannot be read: %v", err)
	}
	req.sql = text + string(rest)
	switch {
	case len(req.sql) > maxStatement:
		return nil, refuse(http.StatusRequestEntityTooLarge, codeTooLarge, "TOO_LARGE_STRING_SIZE",
			"A statement may have %d bytes; send the rows of an INSERT as the body and the statement as parameter query", maxStatement)
	case strings.TrimSpace(req.sql) == "":
		return nil, refuse(http.StatusBadRequest, 62, "SYNTAX_ERROR", "The statement is empty")
	case isHello(req.sql) && req.revision != "":
		req.kind = kindHello
	case mayStream(req.sql, req.format):
		req.kind = kindStream
	}
	return req, nil
}

// parameters sorts the parameters of the URL into statement, options, values and settings. Headers win, as on a server.
func (req *request) parameters(query url.Values, header http.Header) (text string, err error) {
	for name, values := range query {
		value := values[len(values)-1]
		switch name {
		case "query":
			text = value
		case "database":
			req.database = value
		case "query_id":
			req.queryID = value
		case "default_format":
			req.format = value
		case "client_protocol_version":
			req.revision = value
		case "compress":
			req.compress = value == "1"
		case "network_compression_method":
			req.method = strings.ToUpper(value)
		case "readonly":
			req.readonly = value
		case "decompress", "user", "password", "quota_key", "wait_end_of_query", "buffer_size", "stacktrace", "enable_http_compression",
			"network_zstd_compression_level", "send_progress_in_http_headers", "http_write_exception_in_output_format":
			// About the transport of a real server, without meaning here. A password in an address is never looked at.
		case "session_id", "session_check", "session_timeout", "role":
			return "", refuse(http.StatusNotImplemented, codeNotImplemented, "NOT_IMPLEMENTED", "The embedded engine has no %s: every request is a session of its own", name)
		default:
			if err := req.value(name, value); err != nil {
				return "", err
			}
		}
	}
	if database := header.Get("X-ClickHouse-Database"); database != "" {
		req.database = database
	}
	if format := header.Get("X-ClickHouse-Format"); format != "" {
		req.format = format
	}
	if !formatName.MatchString(req.format) {
		return "", refuse(http.StatusBadRequest, codeUnknownFormat, "UNKNOWN_FORMAT", "The name of the default format is malformed")
	}
	return text, nil
}

func (req *request) value(name, value string) error {
	if param, ok := strings.CutPrefix(name, "param_"); ok {
		req.params = append(req.params, chdb.Param{Name: param, Value: value})
		return nil
	}
	if !settingName.MatchString(name) {
		return refuse(http.StatusBadRequest, 115, "UNKNOWN_SETTING", "Unknown setting %q", name)
	}
	req.settings[name] = value
	return nil
}

// requestBody undoes the compression of the transport.
func requestBody(r *http.Request, frames bool) (io.Reader, error) {
	if media, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type")); media == "multipart/form-data" {
		return nil, refuse(http.StatusNotImplemented, codeNotImplemented, "NOT_IMPLEMENTED", "External tables are not supported by the embedded engine")
	}
	body, err := decodeBody(r.Header.Get("Content-Encoding"), r.Body)
	if err != nil || !frames {
		return body, err
	}
	return decodeFrames(body), nil
}

func mayStream(sql, defaultFormat string) bool {
	word := ""
	if match := leading.FindStringSubmatch(sql); match != nil {
		word = strings.ToUpper(match[1])
	}
	if word != "SELECT" && word != "WITH" && word != "FROM" {
		return false
	}
	formats := anyFormat.FindAllStringSubmatch(sql, -1)
	if len(formats) == 0 {
		return slices.Contains(streamable, strings.ToLower(defaultFormat))
	}
	for _, format := range formats {
		if !slices.Contains(streamable, strings.ToLower(format[1])) {
			return false
		}
	}
	return true
}
