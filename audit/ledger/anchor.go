package ledger

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"strconv"
	"time"

	"github.com/chaintrail/chaintrail/schemas/jsonx"
	"github.com/chaintrail/chaintrail/schemas/seal"
)

// Anchored is the form in which a head is kept outside: one line of JSON.
type Anchored struct {
	Origin string    `json:"origin"`
	Size   uint64    `json:"size"`
	Root   seal.Hash `json:"root"`
	Time   time.Time `json:"time"`
	Note   string    `json:"note"` // the head as it was signed
}

func line(head *Checkpoint, signed []byte) ([]byte, error) {
	text, err := jsonx.Marshal(&Anchored{head.Origin, head.Size, head.Root, head.Time, string(signed)})
	if err != nil {
		return nil, fmt.Errorf("anchor a head: %w", err)
	}
	return append(text, '\n'), nil
}

// FileAnchor appends heads to a file, best on another machine's disk or one that only grows (chattr +a). Not for concurrent
// use; several ledgers may share a file as long as one process writes.
type FileAnchor struct{ path string }

// NewFileAnchor appends to the file of this path, which is made when the first head is.
func NewFileAnchor(path string) *FileAnchor { return &FileAnchor{path} }

// Put appends a head and syncs it. A line that an earlier end of the process left half stays, and is passed over.
func (a *FileAnchor) Put(_ context.Context, head *Checkpoint, signed []byte) (err error) {
	text, err := line(head, signed)
	if err != nil {
		return err
	}
	f, err := os.OpenFile(a.path, os.O_RDWR|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		return fmt.Errorf("anchor a head: %w", err)
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	info, err := f.Stat()
	if err != nil {
		return fmt.Errorf("anchor a head: %w", err)
	}
	if size := info.Size(); size > 0 {
		var last [1]byte
		if _, err := f.ReadAt(last[:], size-1); err != nil {
			return fmt.Errorf("anchor a head: %w", err)
		}
		if last[0] != '\n' {
			text = append([]byte("\n"), text...)
		}
	}
	if _, err := f.Write(text); err != nil {
		return fmt.Errorf("anchor a head: %w", err)
	}
	if err := f.Sync(); err != nil {
		return fmt.Errorf("anchor a head: %w", err)
	}
	return nil
}

// anchorTail bounds what is read back: thousands of heads.
const anchorTail = 4 << 20

// Newest returns the largest head of a ledger near the end of the file, as it was signed; nil if there is none.
func (a *FileAnchor) Newest(_ context.Context, origin string) ([]byte, error) {
	f, err := os.Open(a.path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read anchored heads: %w", err)
	}
	defer f.Close() //nolint:errcheck // read only
	info, err := f.Stat()
	if err != nil {
		return nil, fmt.Errorf("read anchored heads: %w", err)
	}
	from := max(0, info.Size()-anchorTail)
	text, err := io.ReadAll(io.NewSectionReader(f, from, info.Size()-from))
	if err != nil {
		return nil, fmt.Errorf("read anchored heads: %w", err)
	}
	var newest Anchored
	for row := range bytes.Lines(text) {
		var x Anchored
		if err := jsonx.Unmarshal(row, &x); err == nil && x.Origin == origin && x.Size >= newest.Size {
			newest = x
		}
	}
	if newest.Note == "" {
		return nil, nil
	}
	return []byte(newest.Note), nil
}

// WebhookAnchor posts heads to a URL, as JSON in the form of [Anchored]. With a secret the header Chaintrail-Signature holds
// t=<Unix seconds>,v1=<hex of HMAC-SHA-256 over "<seconds>.<body>">, which [CheckWebhook] checks. Concurrent use is allowed.
type WebhookAnchor struct {
	url    string
	secret []byte
	client *http.Client
}

// webhookTimeout bounds one request.
const webhookTimeout = 10 * time.Second

// NewWebhookAnchor posts to a URL; redirects are not followed. An empty secret signs nothing.
func NewWebhookAnchor(url string, secret []byte) *WebhookAnchor {
	return &WebhookAnchor{url, secret, &http.Client{
		Timeout:       webhookTimeout,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// Put posts a head; anything but a 2xx status is an error that may pass.
func (a *WebhookAnchor) Put(ctx context.Context, head *Checkpoint, signed []byte) error {
	body, err := line(head, signed)
	if err != nil {
		return err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, a.url, bytes.NewReader(body))
	if err != nil {
		return fmt.Errorf("anchor a head: %w", err)
	}
	request.Header.Set("Content-Type", "application/json")
	if len(a.secret) > 0 {
		request.Header.Set("Chaintrail-Signature", webhookSignature(a.secret, time.Now().Unix(), body))
	}
	response, err := a.client.Do(request)
	if err != nil {
		return fmt.Errorf("anchor a head: %w", err)
	}
	defer response.Body.Close()                                       //nolint:errcheck // nothing of it is needed
	_, _ = io.Copy(io.Discard, io.LimitReader(response.Body, 64<<10)) // the connection can be used again
	if response.StatusCode/100 != 2 {
		return fmt.Errorf("anchor a head: %s answered %s", request.URL.Redacted(), response.Status)
	}
	return nil
}

// Newest knows nothing: a webhook cannot be asked.
func (a *WebhookAnchor) Newest(context.Context, string) ([]byte, error) { return nil, nil }

func webhookSignature(secret []byte, at int64, body []byte) string {
	seconds := strconv.FormatInt(at, 10)
	mac := hmac.New(sha256.New, secret)
	mac.Write([]byte(seconds + "."))
	mac.Write(body)
	return "t=" + seconds + ",v1=" + hex.EncodeToString(mac.Sum(nil))
}

// ErrWebhook is returned for a request that was not signed with the secret, or too long ago.
var ErrWebhook = errors.New("the request is not signed as it should be")

// CheckWebhook checks the header Chaintrail-Signature of a request: for receivers in Go. The time of signing may be off by
// at most tolerance.
func CheckWebhook(secret []byte, header string, body []byte, tolerance time.Duration) error {
	var at int64
	if _, err := fmt.Sscanf(header, "t=%d,", &at); err != nil {
		return ErrWebhook
	}
	if !hmac.Equal([]byte(header), []byte(webhookSignature(secret, at, body))) || time.Since(time.Unix(at, 0)).Abs() > tolerance {
		return ErrWebhook
	}
	return nil
}
