package control

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"realm.dev/contract"
	"realm.dev/realm/control/controltest"
)

const ok = contract.Code("200")

// stopCall is a valid body.
const stopCall = `{"stop":{}}`

func post(path, headers, body string) string {
	return fmt.Sprintf("POST %s HTTP/1.1\r\nHost: realm\r\nContent-Type: application/json\r\nContent-Length: %d\r\n%s\r\n%s",
		path, len(body), headers, body)
}

func get(path, headers string) string {
	return "GET " + path + " HTTP/1.1\r\nHost: realm\r\n" + headers + "\r\n"
}

// requests are the bytes that a client sends, and what must come of them: an
// error code, "200", or "" for a connection that ends with net/http's own 400.
var requests = map[string]struct {
	bytes string
	want  contract.Code
}{
	"record":                     {get("/v1/record", ""), ok},
	"session":                    {get("/v1/session", ""), ok},
	"call":                       {post("/v1/calls", "", `{"status":{}}`), ok},
	"call with charset":          {strings.Replace(post("/v1/calls", "", stopCall), "json\r\n", "json; charset=UTF-8\r\n", 1), ok},
	"any Host is ignored":        {strings.Replace(get("/v1/record", ""), "Host: realm", "Host: evil.example", 1), ok},
	"SOCK-06 Origin":             {get("/v1/record", "Origin: https://evil.example\r\n"), contract.PermissionDenied},
	"SOCK-06 Origin null":        {get("/v1/record", "Origin: null\r\n"), contract.PermissionDenied},
	"SOCK-06 Origin localhost":   {post("/v1/calls", "origin: http://localhost\r\n", stopCall), contract.PermissionDenied},
	"SOCK-06 Origin empty":       {get("/v1/record", "Origin:\r\n"), contract.PermissionDenied},
	"SOCK-06 Origin on upgrade":  {get("/v1/socket", "Origin: null\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"), contract.PermissionDenied},
	"SOCK-08 no Host":            {"GET /v1/record HTTP/1.1\r\n\r\n", ""},
	"SOCK-08 two Hosts":          {get("/v1/record", "Host: realm\r\n"), ""},
	"SOCK-08 absolute target":    {get("http://evil.example/v1/record", ""), contract.SchemaInvalid},
	"SOCK-08 CONNECT":            {"CONNECT evil.example:443 HTTP/1.1\r\nHost: evil.example:443\r\n\r\n", contract.SchemaInvalid},
	"SOCK-08 asterisk":           {"OPTIONS * HTTP/1.1\r\nHost: realm\r\n\r\n", contract.SchemaInvalid},
	"SOCK-09 CL and TE":          {post("/v1/calls", "Transfer-Encoding: chunked\r\n", "0\r\n\r\nGET /v1/record HTTP/1.1\r\nHost: a\r\n\r\n"), contract.SchemaInvalid},
	"SOCK-09 chunked":            {"POST /v1/calls HTTP/1.1\r\nHost: realm\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\nb\r\n" + stopCall + "\r\n0\r\n\r\n", contract.SchemaInvalid},
	"SOCK-09 CL and TE, valid":   {post("/v1/calls", "Transfer-Encoding: chunked\r\n", "b\r\n"+stopCall+"\r\n0\r\n\r\n"), contract.SchemaInvalid},
	"SOCK-09 bad chunk size":     {"POST /v1/calls HTTP/1.1\r\nHost: realm\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n{}\r\n", contract.SchemaInvalid},
	"SOCK-09 unknown coding":     {"POST /v1/calls HTTP/1.1\r\nHost: realm\r\nTransfer-Encoding: xchunked\r\n\r\n", ""},
	"SOCK-09 two lengths":        {post("/v1/calls", "Content-Length: 3\r\n", stopCall), ""},
	"SOCK-09 signed length":      {strings.Replace(post("/v1/calls", "", stopCall), "Length: ", "Length: +", 1), ""},
	"SOCK-09 bare LF":            {strings.ReplaceAll(get("/v1/record", ""), "\r\n", "\n"), contract.SchemaInvalid},
	"SOCK-09 one bare LF":        {get("/v1/record", "A: b\nC: d\r\n"), contract.SchemaInvalid},
	"SOCK-09 bare CR":            {get("/v1/record", "A: b\rC: d\r\n"), contract.SchemaInvalid},
	"SOCK-09 folded line":        {get("/v1/record", "A: b\r\n c\r\n"), contract.SchemaInvalid},
	"SOCK-09 NUL":                {get("/v1/record", "A: b\x00\r\n"), contract.SchemaInvalid},
	"SOCK-09 empty first line":   {"\r\n" + get("/v1/record", ""), contract.SchemaInvalid},
	"SOCK-09 space before colon": {get("/v1/record", "A : b\r\n"), ""},
	"SOCK-14 dot dot":            {get("/v1/../v1/record", ""), contract.PathNotFound},
	"SOCK-14 encoded":            {get("/v1%2frecord", ""), contract.PathNotFound},
	"SOCK-14 double slash":       {get("//v1/record", ""), contract.PathNotFound},
	"SOCK-14 trailing slash":     {get("/v1/record/", ""), contract.PathNotFound},
	"SOCK-14 4 KiB":              {get("/"+strings.Repeat("a", 4096), ""), contract.PathNotFound},
	"SOCK-17 HEAD":               {"HEAD /v1/record HTTP/1.1\r\nHost: realm\r\n\r\n", ok},
	"SOCK-17 GET stop":           {get("/v1/stop", ""), contract.SchemaInvalid},
	"SOCK-17 HEAD stop":          {"HEAD /v1/stop HTTP/1.1\r\nHost: realm\r\n\r\n", contract.SchemaInvalid},
	"SOCK-17 GET call":           {get("/v1/calls", ""), contract.SchemaInvalid},
	"SOCK-17 override":           {get("/v1/stop", "X-HTTP-Method-Override: POST\r\n"), contract.SchemaInvalid},
	"unknown":                    {get("/", ""), contract.PathNotFound},
	"query":                      {get("/v1/record?x=1", ""), contract.SchemaInvalid},
	"no type":                    {strings.Replace(post("/v1/calls", "", stopCall), "Content-Type", "X-Type", 1), contract.SchemaInvalid},
	"form type":                  {strings.Replace(post("/v1/calls", "", stopCall), "application/json", "application/x-www-form-urlencoded", 1), contract.SchemaInvalid},
	"text type":                  {strings.Replace(post("/v1/calls", "", stopCall), "application/json", "text/plain", 1), contract.SchemaInvalid},
	"encoded body":               {post("/v1/calls", "Content-Encoding: gzip\r\n", stopCall), contract.SchemaInvalid},
	"no body":                    {post("/v1/calls", "", ""), contract.SchemaInvalid},
	"too large by length":        {strings.Replace(post("/v1/calls", "", ""), "Length: 0", "Length: 25165825", 1), contract.LimitExceeded},
	"bad key":                    {post("/v1/calls", "Idempotency-Key: ../x\r\n", stopCall), contract.SchemaInvalid},
	"long key":                   {post("/v1/calls", "Idempotency-Key: "+strings.Repeat("a", 129)+"\r\n", stopCall), contract.SchemaInvalid},
	"two keys":                   {post("/v1/calls", "Idempotency-Key: a\r\nIdempotency-Key: b\r\n", stopCall), contract.SchemaInvalid},
	"duplicate key in body":      {post("/v1/calls", "", `{"stop":{},"stop":{}}`), contract.SchemaInvalid},
	"two tools":                  {post("/v1/calls", "", `{"stop":{},"status":{}}`), contract.SchemaInvalid},
	"trailing data":              {post("/v1/calls", "", stopCall+"{}"), contract.SchemaInvalid},
	"stop with another call":     {post("/v1/stop", "", `{"status":{}}`), contract.SchemaInvalid},
	"header too large":           {get("/v1/record", "A: "+strings.Repeat("b", 16<<10)+"\r\n"), contract.LimitExceeded},
	"TLS":                        {"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n", contract.SchemaInvalid},
	"HTTP/2 preface":             {"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", ""},
}

func TestHostileBytes(t *testing.T) {
	for name, tt := range requests {
		t.Run(name, func(t *testing.T) {
			session := controltest.New(contract.Ready)
			path, _ := serveFake(t, session, Options{})
			c := dial(t, path)
			// What is sent after the request must never be taken for one.
			if _, err := io.WriteString(c, tt.bytes+get("/v1/session", "")); err != nil {
				t.Log("write:", err) // the server may have refused and gone
			}
			all, _ := io.ReadAll(c)
			checkAnswer(t, all, tt.bytes, tt.want)
			calls, stops := len(session.Calls()), len(session.Graces())
			if tt.want != ok && calls+stops != 0 {
				t.Errorf("refused, yet %d calls and %d stops reached the session", calls, stops)
			}
		})
	}
}

func dial(t *testing.T, path string) *net.UnixConn {
	t.Helper()
	c, err := net.Dial("unix", path)
	must(t, err)
	t.Cleanup(func() { c.Close() })
	must(t, c.SetDeadline(time.Now().Add(20*time.Second)))
	return c.(*net.UnixConn)
}

// checkAnswer wants exactly one response, as want says, and then the end.
func checkAnswer(t *testing.T, all []byte, request string, want contract.Code) {
	t.Helper()
	reader := bufio.NewReader(strings.NewReader(string(all)))
	method, _, _ := strings.Cut(request, " ")
	resp, err := http.ReadResponse(reader, &http.Request{Method: method})
	if err != nil {
		t.Fatalf("no response: %v, in %q", err, all)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	must(t, err)
	if reader.Buffered() != 0 {
		t.Errorf("a second response follows: %q", all)
	}
	if cors := resp.Header["Access-Control-Allow-Origin"]; cors != nil {
		t.Errorf("CORS header %q", cors)
	}
	if !resp.Close {
		t.Error("the response does not say that the connection ends")
	}
	switch {
	case want == ok:
		if resp.StatusCode != http.StatusOK {
			t.Errorf("status %d: %s", resp.StatusCode, body)
		}
		return
	case want == "":
		if resp.StatusCode != http.StatusBadRequest && resp.StatusCode != http.StatusNotImplemented && resp.StatusCode != http.StatusHTTPVersionNotSupported {
			t.Errorf("status %d: %s", resp.StatusCode, body)
		}
		return
	case resp.StatusCode != want.HTTP():
		t.Errorf("status %d, want %d: %s", resp.StatusCode, want.HTTP(), body)
	}
	if method == http.MethodHead {
		return
	}
	var e contract.Error
	if err := json.Unmarshal(body, &e); err != nil || e.Code != want || e.Reason != want.Reason() {
		t.Errorf("got %s (%v), want %s", body, err, want)
	}
}

// SOCK-17: OPTIONS tells the methods and nothing else.
func TestOptions(t *testing.T) {
	path, _ := serveFake(t, controltest.New(contract.Ready), Options{})
	for target, want := range map[string]string{"/v1/record": "GET, HEAD, OPTIONS", "/v1/stop": "OPTIONS, POST"} {
		c := dial(t, path)
		fmt.Fprintf(c, "OPTIONS %s HTTP/1.1\r\nHost: realm\r\nAccess-Control-Request-Method: POST\r\n\r\n", target)
		resp, err := http.ReadResponse(bufio.NewReader(c), nil)
		must(t, err)
		resp.Body.Close()
		if resp.StatusCode != http.StatusNoContent || resp.Header.Get("Allow") != want {
			t.Errorf("%s: status %d, Allow %q", target, resp.StatusCode, resp.Header.Get("Allow"))
		}
		for name := range resp.Header {
			if strings.HasPrefix(name, "Access-Control-") {
				t.Errorf("%s: CORS header %s", target, name)
			}
		}
	}
}

// SOCK-10: a header without end is refused early, not read to its end.
func TestHeaderFlood(t *testing.T) {
	path, _ := serveFake(t, controltest.New(contract.Ready), Options{})
	c := dial(t, path)
	sent := 0
	flood := []byte(strings.Repeat("A", 64<<10))
	_, err := io.WriteString(c, "GET / HTTP/1.1\r\nX: ")
	for err == nil && sent < 10<<20 {
		var n int
		n, err = c.Write(flood)
		sent += n
	}
	if err == nil {
		t.Errorf("the server took %d bytes of header", sent)
	}
	all, _ := io.ReadAll(c)
	checkAnswer(t, all, "GET", contract.LimitExceeded)
}

// SOCK-10: whoever sends slowly is cut, in the header and in the body.
func TestSlowloris(t *testing.T) {
	short := Options{HeaderTimeout: 50 * time.Millisecond, BodyTimeout: 50 * time.Millisecond}
	tests := map[string]struct {
		first string
		want  contract.Code // "": closed without a word
	}{
		"nothing":   {"", ""},
		"no header": {"GET / HTTP/1.1\r\nX: ", ""},
		"no body":   {strings.TrimSuffix(post("/v1/calls", "", stopCall), "}}"), contract.SchemaInvalid},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			session := controltest.New(contract.Ready)
			path, _ := serveFake(t, session, short)
			c := dial(t, path)
			_, err := io.WriteString(c, tt.first)
			must(t, err)
			all, err := io.ReadAll(c) // ends long before dial's deadline
			if errors.Is(err, os.ErrDeadlineExceeded) {
				t.Fatal("the connection stayed open")
			}
			if tt.want != "" {
				checkAnswer(t, all, tt.first, tt.want)
			} else if len(all) != 0 {
				t.Errorf("got %q", all)
			}
			if len(session.Calls()) != 0 {
				t.Error("the session was called")
			}
		})
	}
}

// SOCK-10: connections above the cap are answered and closed; places come back.
func TestConnectionCap(t *testing.T) {
	path, _ := serveFake(t, controltest.New(contract.Ready), Options{MaxConns: 4})
	idle := make([]net.Conn, 4)
	for i := range idle {
		idle[i] = dial(t, path)
	}
	c := dial(t, path)
	all, _ := io.ReadAll(c)
	checkAnswer(t, all, "GET", contract.LimitExceeded)
	for _, c := range idle {
		c.Close()
	}
	eventually(t, "a place is free again", func() bool {
		c := dial(t, path)
		fmt.Fprint(c, get("/v1/record", ""))
		all, _ := io.ReadAll(c)
		return strings.HasPrefix(string(all), "HTTP/1.1 200 ")
	})
}

// SOCK-15: the server reads with read(2), so the kernel drops descriptors that
// come along: the pipe whose write end was sent ends once the bytes are read.
func TestPassedDescriptorsAreDropped(t *testing.T) {
	path, _ := serveFake(t, controltest.New(contract.Ready), Options{})
	c := dial(t, path)
	r, w, err := os.Pipe()
	must(t, err)
	defer r.Close()
	_, _, err = c.WriteMsgUnix([]byte(get("/v1/record", "")), syscall.UnixRights(int(w.Fd())), nil)
	must(t, err)
	must(t, w.Close())
	if all, _ := io.ReadAll(c); !strings.HasPrefix(string(all), "HTTP/1.1 200 ") {
		t.Errorf("got %q", all)
	}
	must(t, r.SetReadDeadline(time.Now().Add(20*time.Second)))
	if n, err := r.Read(make([]byte, 1)); n != 0 || err != io.EOF {
		t.Errorf("the server kept the descriptor: %d, %v", n, err)
	}
}
