package detect

import (
	"encoding/json/jsontext"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// The secrets are put together here so that no scanner of sources takes them for real ones.
var (
	github = "ghp" + "_" + strings.Repeat("aB3", 12)
	pat    = "github" + "_pat_" + strings.Repeat("Zz9_", 12)
	aws    = "AKIA" + "IOSFODNN7EXAMPLE"
	stripe = "sk" + "_live_" + strings.Repeat("4eC39H", 4)
	slack  = "xox" + "b-123456789012-abcdefGHIJ"
	google = "AI" + "za" + strings.Repeat("Sy0-x", 7)
	npm    = "npm" + "_" + strings.Repeat("q7W", 12)
	jwt    = "ey" + "JhbGciOiJIUzI1NiJ9" + ".eyJzdWIiOiIxIn0" + ".c2lnbmF0dXJl"
	pem    = "-----BEGIN RSA " + "PRIVATE KEY-----\nMIIEow\nabc\n-----END RSA " + "PRIVATE KEY-----"
)

func newTest(tb testing.TB, cfg Config) *Detector {
	tb.Helper()
	r, err := New(cfg)
	if err != nil {
		tb.Fatal(err)
	}
	return r
}

func TestRedact(t *testing.T) {
	t.Parallel()
	escaped := strings.ReplaceAll(pem, "\n", `\n`)
	tests := []struct{ name, in, want string }{
		{"github", `{"a":"` + github + `"}`, `{"a":"[redacted:github_token]"}`},
		{"github fine-grained", `{"a":"use ` + pat + ` now"}`, `{"a":"use [redacted:github_token] now"}`},
		{"github escaped", `{"a":"\u0067h\u0070_` + github[4:] + `\n"}`, `{"a":"[redacted:github_token]\n"}`},
		{"github after an escape", `{"a":"x\n` + github + `"}`, `{"a":"x\n[redacted:github_token]"}`},
		{"github between odd escapes", `{"a":"\ud800` + github + `\ud83d\ude00 \/"}`, `{"a":"\ud800[redacted:github_token]\ud83d\ude00 \/"}`},
		{"aws", `["` + aws + `"]`, `["[redacted:aws_key_id]"]`},
		{"aws secret by name", "aws_secret_access_key = wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY", "aws_secret_access_key = [redacted:secret]"},
		{"stripe", stripe, "[redacted:stripe_key]"},
		{"slack", "token was " + slack + ".", "token was [redacted:slack_token]."},
		{"google", "key=" + google, "key=[redacted:google_api_key]"},
		{"npm", "//registry/:_authToken=" + npm, "//registry/:_authToken=[redacted:secret]"},
		{"npm alone", "(" + npm + ")", "([redacted:npm_token])"},
		{"jwt", `{"h":"` + jwt + `","n":1}`, `{"h":"[redacted:jwt]","n":1}`},
		{"pem", pem + "\nafter", "[redacted:private_key]\nafter"},
		{"pem in json", `{"k":"` + escaped + `!"}`, `{"k":"[redacted:private_key]!"}`},
		{"pem cut off", "a " + pem[:40], "a [redacted:private_key]"},
		{"certificate", "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----", "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----"},
		{"bearer", `{"x":"Bearer abc123def456"}`, `{"x":"Bearer [redacted:credentials]"}`},
		{"bearer prose", "the bearer authority", "the bearer authority"},
		{"authorization header", "GET /\nAuthorization: Digest user one two\nHost: x", "GET /\nAuthorization: [redacted:secret]\nHost: x"},
		{"authorization member", `{"Authorization":"Token abc"}`, `{"Authorization":"[redacted:secret]"}`},
		{"url", "postgres://bob:s3cr3t@db.example.com:5432/x", "postgres://bob:[redacted:url_password]@db.example.com:5432/x"},
		{"url odd password", "amqp://bob:p/s#s@w@host/x", "amqp://bob:[redacted:url_password]@host/x"},
		{"url no user", "redis://:pw@cache:6379", "redis://:[redacted:url_password]@cache:6379"},
		{"url port and at", "https://example.com:8080/@scope/x", "https://example.com:8080/@scope/x"},
		{"url user only", "ssh://git@github.com/x", "ssh://git@github.com/x"},
		{"url token as user", "https://" + github + "@github.com", "https://[redacted:github_token]@github.com"},
		{"url mail as user", "smtp://a@example.com:pw@mail.example.com", "smtp://[redacted:email]:[redacted:url_password]@mail.example.com"},
		{"email", `{"a":"to alice.b+c@example.co.uk, now"}`, `{"a":"to [redacted:email], now"}`},
		{"no email", "lodash@4.17.21 @scope/pkg a@b foo@1.x", "lodash@4.17.21 @scope/pkg a@b foo@1.x"},
		{"card", "pay 4111 1111 1111 1111 12/27", "pay [redacted:card_number] 12/27"},
		{"card plain", `{"n":"4012888888881881"}`, `{"n":"[redacted:card_number]"}`},
		{"card number", `{"n":4012888888881881,"m":[378282246310005]}`, `{"n":"[redacted:card_number]","m":["[redacted:card_number]"]}`},
		{"card dashes", "3782-822463-10005", "[redacted:card_number]"},
		{"card wrong digit", "4012888888881882", "4012888888881882"},
		{"times and ids", `{"us":1733000000000000,"id":9007199254740993,"f":0.4111111111111111}`, `{"us":1733000000000000,"id":9007199254740993,"f":0.4111111111111111}`},
		{"names", `{"password":"x","api_key": 12,"clientSecret":{"a":[1,"}"]},"token":["a"]}`, `{"password":"[redacted:secret]","api_key": "[redacted:secret]","clientSecret":"[redacted:secret]","token":"[redacted:secret]"}`},
		{"name escaped", `{"pass\u0077ord":"x"}`, `{"pass\u0077ord":"[redacted:secret]"}`},
		{"nothing under names", `{"password":"","secret":null,"apiKey":true,"token":{},"credentials":[]}`, `{"password":"","secret":null,"apiKey":true,"token":{},"credentials":[]}`},
		{"harmless names", `{"_meta":{"progressToken":"p-1"},"nextPageToken":"n","max_tokens":5,"tokens":7,"passwordPolicy":"long","secretName":"s"}`, `{"_meta":{"progressToken":"p-1"},"nextPageToken":"n","max_tokens":5,"tokens":7,"passwordPolicy":"long","secretName":"s"}`},
		{"schema", `{"inputSchema":{"properties":{"password":{"type":"string","description":"d"}}}}`, `{"inputSchema":{"properties":{"password":{"type":"string","description":"d"}}}}`},
		{"schema with default", `{"properties":{"password":{"type":"string","default":"d"}}}`, `{"properties":{"password":"[redacted:secret]"}}`},
		{"name and value", `[{"name":"API_KEY","value":"x"},{"name":"HOME","value":"x"}]`, `[{"name":"API_KEY","value":"[redacted:secret]"},{"name":"HOME","value":"x"}]`},
		{"json in a string", `{"text":"{\"password\":\"hunter2\",\"n\":1}"}`, `{"text":"{\"password\":\"[redacted:secret]\",\"n\":1}"}`},
		{"number in json in a string", `{"text":"{\"password\": 12345,\"n\":1}"}`, `{"text":"{\"password\": \"[redacted:secret]\",\"n\":1}"}`},
		{"object in json in a string", `{"text":"{\"credentials\": {\"a\":\"b\"},\"n\":1}"}`, `{"text":"{\"credentials\": \"[redacted:secret]\",\"n\":1}"}`},
		{"json in json in a string", `{"text":"\"{\\\"password\\\":\\\"hun\\\\\\\"ter2\\\"}\""}`, `{"text":"\"{\\\"password\\\":\\\"[redacted:secret]\\\"}\""}`},
		{"pair", "dial: password=hunter2 user=x", "dial: password=[redacted:secret] user=x"},
		{"pair in query", "/x?a=1&api_key=abc&b=2", "/x?a=1&api_key=[redacted:secret]&b=2"},
		{"pair quoted", `password: "a b\"c" x`, `password: "[redacted:secret]" x`},
		{"pair prose", "token: the one to use; password: yes", "token: the one to use; password: yes"},
		{"pair spaced words", "API key: 9f8e7d6c", "API key: [redacted:secret]"},
		{"broken json", `{"a": oops ` + github, `{"a": oops [redacted:github_token]`},
		{"broken json with a name", `{"a": oops "password": "x y"`, `{"a": oops "password": "[redacted:secret]"`},
		{"cut json with an escape", `{"a":"\u0067hp_` + github[4:], `{"a":"[redacted:github_token]`},
		{"two mails as names", `{"a@b.co":1,"c@d.co":"e@f.co","[redacted:email:7]":2}`, `{"[redacted:email:8]":1,"[redacted:email:9]":"[redacted:email]","[redacted:email:7]":2}`},
		{"not utf-8", "\xff\xfe " + github + "\xff", "\xff\xfe [redacted:github_token]\xff"},
		{"own marker", `{"password":"[redacted:secret]","b":"password=[redacted:secret]"}`, `{"password":"[redacted:secret]","b":"password=[redacted:secret]"}`},
		{"false marker", `{"password":"[redacted:hunter2]"}`, `{"password":"[redacted:secret]"}`},
		{"marker and more", `password=[redacted:email]hunter2`, `password=[redacted:secret]`},
	}
	r := newTest(t, Config{})
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			in := []byte(tt.in)
			got := r.Redact(in)
			if diff := cmp.Diff(string(got), tt.want); diff != "" {
				t.Errorf("Redact gave another text (-got +want):\n%s", diff)
			}
			if string(in) != tt.in {
				t.Error("Redact changed its input")
			}
			if again := r.Redact(got); string(again) != string(got) {
				t.Errorf("Redact is not idempotent: %s became %s", got, again)
			}
			if jsontext.Value(tt.in).IsValid() && !jsontext.Value(got).IsValid() {
				t.Errorf("Redact made invalid JSON: %s", got)
			}
		})
	}
}

func TestRedactorConfig(t *testing.T) {
	t.Parallel()
	r := newTest(t, Config{Names: []string{"Employee-No"}, SafeNames: []string{"secret_sauce"}, Off: []Kind{KindEmail}})
	in := `{"employee_no":17,"secretSauce":"ketchup","mail":"a@b.co"}`
	want := `{"employee_no":"[redacted:secret]","secretSauce":"ketchup","mail":"a@b.co"}`
	if got := r.RedactString(in); got != want {
		t.Errorf("Redact with own names = %s, want %s", got, want)
	}
	if _, err := New(Config{Off: []Kind{"mail"}}); err == nil || !strings.Contains(err.Error(), `"mail"`) {
		t.Errorf("an unknown kind gave %v, want an error that names it", err)
	}
	if _, err := New(Config{Names: []string{"--"}}); err == nil {
		t.Error("a name without letters was accepted")
	}
}

// secretsOf are bodies that no output may hold.
func secretsOf() []string {
	return []string{github, pat, aws, stripe, slack, google, npm, jwt, "MIIEow", "4012888888881881", "378282246310005"}
}

func FuzzRedact(f *testing.F) {
	for _, s := range secretsOf() {
		f.Add([]byte(`{"a":"x `), []byte(s), []byte(` y"}`))
		f.Add([]byte(""), []byte(s), []byte(""))
	}
	f.Add([]byte(`{"a@b.co":{"password":["`), []byte(pem), []byte(`"]},"c@d.co":1}`))
	f.Add([]byte(`a://b:`), []byte("c@d.co"), []byte(`@e\u0067:{"x`))
	r := newTest(f, Config{})
	f.Fuzz(func(t *testing.T, before, secret, after []byte) {
		in := append(append(append([]byte{}, before...), secret...), after...)
		got := r.Redact(in)
		if len(got) > 16*len(in)+64 {
			t.Fatalf("%d bytes became %d", len(in), len(got))
		}
		if jsontext.Value(in).IsValid() && !jsontext.Value(got).IsValid() {
			t.Fatalf("valid JSON became invalid:\n%s\n%s", in, got)
		}
		if again := r.Redact(got); string(again) != string(got) {
			t.Fatalf("not idempotent:\n%s\n%s\n%s", in, got, again)
		}
	})
}

func FuzzSecretInText(f *testing.F) {
	for i := range secretsOf() {
		f.Add("before", uint8(i), "after \" \\u0000 {}")
	}
	r := newTest(f, Config{})
	f.Fuzz(func(t *testing.T, before string, which uint8, after string) {
		secrets := secretsOf()
		secret := secrets[int(which)%len(secrets)]
		if secret == "MIIEow" {
			secret = pem
		}
		text, err := jsontext.AppendQuote(nil, before+" "+secret+" "+after)
		if err != nil {
			t.Skip("not UTF-8")
		}
		body := secret
		if secret == pem {
			body = "MIIEow"
		}
		if strings.Contains(before+after, body) {
			t.Skip("the secret stands there a second time, in whatever place")
		}
		if got := r.Redact([]byte(`{"text":` + string(text) + `}`)); strings.Contains(string(got), body) {
			t.Fatalf("the secret is still there: %s", got)
		}
	})
}

func TestRedactIsLinear(t *testing.T) {
	t.Parallel()
	r := newTest(t, Config{})
	for _, unit := range []string{
		"eyJ-", "ghp_", "://", "a://b:", "a@", "a@b.", "@", "password=", "token: ", `"token":{`, `{"token":`, `{"properties":{"password":{"type":1,`,
		"-----BEGIN PRIVATE KEY", "-----BEGIN ", "bearer ", "4111 ", "41", `\`, `\"`, `\u0067`, `"`, `{"`, `{"a":"`, "[redacted:", "[redacted:email]",
		`{"name":"token","value":`, "sk-", "AKIA", "=", ":", "a=", `token:\`, `authorization:`, "xox", "--", "{", "[1,", "token=[redacted:email]x ",
	} {
		for _, in := range []string{strings.Repeat(unit, 1<<18/len(unit)), `["` + strings.Repeat(unit, 1<<18/len(unit)) + `"]`} {
			begin := time.Now()
			r.Redact([]byte(in))
			// 256 KiB take a few milliseconds; what is not linear takes many seconds.
			if took := time.Since(begin); took > 3*time.Second {
				t.Errorf("%q over and over took %v", unit, took)
			}
		}
	}
}

func cleanPayload() []byte {
	var b strings.Builder
	b.WriteString(`{"name":"search_documents","arguments":{"query":"quarterly report for the northern region","limit":25,"filters":[`)
	for i := range 12 {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(`{"field":"created_at","op":"between","from":"2026-01-01T00:00:00Z","to":"2026-06-30T23:59:59Z","note":"as agreed in the weekly meeting"}`)
	}
	b.WriteString(`],"include_archived":false,"sort":["-score","title"]},"_meta":{"progressToken":"p-17"}}`)
	return []byte(b.String())
}

func BenchmarkRedact(b *testing.B) {
	r := newTest(b, Config{})
	clean := cleanPayload()
	inString, _ := jsontext.AppendQuote(nil, clean)
	for _, bench := range []struct {
		name string
		in   []byte
	}{
		{"clean", clean},
		{"clean_in_string", []byte(`{"content":[{"type":"text","text":` + string(inString) + `}]}`)},
		{"prose", []byte(strings.Repeat("It was a bright cold day in April, and the clocks were striking thirteen. ", 28))},
		{"one_secret", []byte(strings.Replace(string(clean), "northern", github, 1))},
	} {
		b.Run(bench.name, func(b *testing.B) {
			b.ReportAllocs()
			b.SetBytes(int64(len(bench.in)))
			for b.Loop() {
				r.Redact(bench.in)
			}
		})
	}
}
