package policy

import (
	"strings"
	"testing"
)

func TestDestination(t *testing.T) {
	long := strings.Repeat("a", 63)
	tests := []struct{ in, want string }{ // "" is refused
		{"Example.COM", "example.com"},
		{"example.com.", "example.com"},
		{"*.Example.com", "*.example.com"},
		{"localhost", "localhost"},
		{"r3---sn-a.example.com", "r3---sn-a.example.com"},
		{"xn--bcher-kva.example", "xn--bcher-kva.example"},
		{"XN--BCHER-KVA.example", "xn--bcher-kva.example"},
		{"xn--exmple-4nf.com", "xn--exmple-4nf.com"},
		{"1and1.example", "1and1.example"},
		{"203.0.113.5", "203.0.113.5"},
		{"2001:DB8:0::7", "2001:db8::7"},
		{long + ".example", long + ".example"},
		{"", ""},
		{".", ""},
		{"example.com..", ""},
		{".example.com", ""},
		{"a..b", ""},
		{"*", ""},
		{"*.", ""},
		{"*.*", ""},
		{"*.com", ""},
		{"*.co.uk", ""},
		{"*.github.io", ""},
		{"*.internal", ""},
		{"*.203.0.113.5", ""},
		{"a.*.example", ""},
		{"*.*.example.com", ""},
		{"*a.example", ""},
		{"https://example.com", ""},
		{"example.com:443", ""},
		{"example.com/", ""},
		{"user@example.com", ""},
		{"exa mple.com", ""},
		{"example.com\n", ""},
		{"example.com\x00", ""},
		{"under_score.example", ""},
		{"-a.example", ""},
		{"a-.example", ""},
		{long + "a.example", ""},
		{strings.Repeat("a.", 127) + "aa", ""},
		{"bücher.example", ""},
		{"ex\u0430mple.com", ""},
		{"xn--example-.com", ""},
		{"xn--.example", ""},
		{"xn--a.example", ""},
		{"xn--bcher-kva-.example", ""},
		{"127.1", ""},
		{"0x7f.1", ""},
		{"0x7f000001", ""},
		{"2130706433", ""},
		{"010.0.0.1", ""},
		{"203.0.113.5.", ""},
		{"1.2.3.4.5", ""},
		{"a.0x1", ""},
		{"[::1]", ""},
		{"::1%eth0", ""},
		{"::ffff:203.0.113.5", ""},
	}
	for _, test := range tests {
		d, err := parseDestination(test.in)
		switch {
		case err != nil && test.want != "":
			t.Errorf("%q is refused: %v", test.in, err)
		case err == nil && d.String() != test.want:
			t.Errorf("%q became %q, want %q", test.in, d, test.want)
		}
	}
}

func TestUnreachableAddresses(t *testing.T) {
	for _, host := range []string{"0.0.0.0", "::", "127.0.0.1", "::1", "224.0.0.1", "ff02::1", "255.255.255.255"} {
		_, err := parsePolicy([]byte(`{"egressAllow":[{"host":"` + host + `","port":443}]}`))
		if !complainsAt(err, "/egressAllow/0/host") {
			t.Errorf("%s: %v", host, err)
		}
	}
}

func TestEgress(t *testing.T) {
	c := mustCompile(t, `{"egressAllow":[
		{"host":"xn--bcher-kva.example","port":443},{"host":"*.b.example","port":443},{"host":"203.0.113.5","port":443}]}`)
	for host, want := range map[string]string{
		"bücher.example": "allow", "BÜCHER.example.": "allow", "xn--bcher-kva.example": "allow",
		"bu\u0308cher.example": "allow", // the same name, decomposed
		"x.y.b.example":        "allow", "b.example": "deny", "xb.example": "deny",
		"203.0.113.5": "allow", "203.0.113.5.": "deny", "::ffff:203.0.113.5": "deny", "203.0.113.005": "deny",
		"b\u3002example": "deny", "x.b.example..": "deny", "*.b.example": "deny", "": "deny",
	} {
		if got := c.Egress(host, 443); string(got.Effect) != want {
			t.Errorf("%q: %s (%s), want %s", host, got.Effect, got.Rule, want)
		}
		if got := c.Egress(host, 80); got.Effect == "allow" {
			t.Errorf("%q: another port is allowed", host)
		}
	}
	if got := mustCompile(t, `{"egressDefault":"ask"}`).Egress("a.example", 1); got.Effect != "ask" || got.Code != "" {
		t.Errorf("an unlisted name under ask: %+v", got)
	}
	if got := mustCompile(t, `{"egressDefault":"ask"}`).Egress("a b", 1); got.Effect != "deny" {
		t.Errorf("a malformed name under ask: %+v", got)
	}
}

func TestParseTarget(t *testing.T) {
	for in, want := range map[string]string{
		"a:1": "a", "a.example:65535": "a.example", "[2001:db8::5]:443": "2001:db8::5",
	} {
		if host, _, err := ParseTarget(in); err != nil || host != want {
			t.Errorf("%q: %q, %v", in, host, err)
		}
	}
	for _, in := range []string{
		"", "a", "a:", ":1", "a:0", "a:01", "a:65536", "a:+1", "a:-1", "a: 1", "a:1 ", "a:0x1", "a:b", "a:1:1", "::1:1",
		"[a]:1", "[203.0.113.5]:1", "[::1", "[::1]", "[::1]x:1", "a:99999999999999999999",
	} {
		if host, port, err := ParseTarget(in); err == nil {
			t.Errorf("%q was read as %q and %d", in, host, port)
		}
	}
}

// FuzzHost: an accepted host is in its one spelling, reads as itself again, and
// a wildcard never covers what is not strictly below its name.
func FuzzHost(f *testing.F) {
	for _, s := range []string{"Example.com.", "*.example.com", "xn--bcher-kva.example", "xn--example-.com", "2001:DB8::7", "0x7f.1", "a--b.c"} {
		f.Add(s, "x.example.com")
	}
	f.Fuzz(func(t *testing.T, host, query string) {
		asked, err := parseAsked(query)
		if err == nil {
			again, err := parseAsked(asked.String())
			if err != nil || again != asked {
				t.Fatalf("the query %q became %q and then %q, %v", query, asked, again, err)
			}
		}
		d, err2 := parseDestination(host)
		if err2 != nil {
			return
		}
		text := d.String()
		if again, err := parseDestination(text); err != nil || again != d {
			t.Fatalf("%q became %q and then %q, %v", host, text, again, err)
		}
		if text != strings.ToLower(text) || !isASCII(text) || strings.HasSuffix(text, ".") || strings.ContainsAny(text, " /@\x00\n%[]") {
			t.Fatalf("%q became %q", host, text)
		}
		if err == nil && d.matches(asked) {
			name := strings.TrimPrefix(text, "*")
			if d.wild && !strings.HasSuffix("."+asked.name, name) || !d.wild && asked.String() != text {
				t.Fatalf("%q matches %q", text, asked)
			}
		}
	})
}
