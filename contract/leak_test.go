package contract

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
)

// secrets are shaped like what people must never find in a log.
var secrets = []string{
	"sk-live-SECRET-4242",
	"ghp_16C7e42F292c6912E7710c838347Ae178B4a",
	"AKIAIOSFODNN7EXAMPLE",
	"eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2lnbmF0dXJl",
	"xoxb-123456789012-abcdefABCDEF",
	"-----BEGIN OPENSSH PRIVATE KEY-----\nb3BlbnNzaA==",
	"postgres://user:hunter2@db.internal/prod",
	"Bearer 0123456789abcdef.0123456789abcdef",
	"glpat-AbCdEfGhIjKlMnOpQrSt",
}

// texts are all the ways in which an error is shown.
func texts(t *testing.T, err error) []string {
	t.Helper()
	data, jsonErr := json.Marshal(err)
	if jsonErr != nil {
		t.Fatal(jsonErr)
	}
	shown := []string{err.Error(), fmt.Sprintf("%v", err), fmt.Sprintf("%+v", err), fmt.Sprintf("%#v", err), string(data)}
	if e := asError(t, err); e.Cause != nil {
		shown = append(shown, e.Cause.Error())
	}
	return shown
}

// A secret in any position of any document, as value, key, or in broken text,
// never comes back in the error.
func TestSecretsDoNotComeBack(t *testing.T) {
	for _, k := range kinds {
		t.Run(k.doc.name, func(t *testing.T) {
			t.Parallel()
			refused := 0
			for _, secret := range secrets {
				for _, sample := range samples(t, k.doc.name) {
					for _, data := range poisoned(t, sample, secret) {
						if noLeak(t, data, Validate(k.doc.name, data)) {
							refused++
						}
						if k.doc == policyDocument {
							_, err := DecodeYAML(data)
							noLeak(t, data, err)
						}
					}
				}
			}
			if refused < 100 {
				t.Errorf("only %d documents were refused", refused)
			}
		})
	}
}

// forms are how a secret could be written in an error.
func forms(t *testing.T, secret string) []string {
	t.Helper()
	quoted, err := json.Marshal(secret)
	if err != nil {
		t.Fatal(err)
	}
	return []string{secret, strings.Trim(string(quoted), `"`)}
}

func noLeak(t *testing.T, data []byte, err error) (refused bool) {
	t.Helper()
	if err == nil {
		return false
	}
	shown := strings.Join(texts(t, err), "\n")
	for _, secret := range secrets {
		for _, form := range forms(t, secret) {
			if strings.Contains(shown, form) {
				t.Fatalf("%q came back:\n%s\nfrom %s", secret, shown, data)
			}
		}
	}
	return true
}

// poisoned puts the secret into every position of the document, one at a time.
func poisoned(t *testing.T, sample []byte, secret string) [][]byte {
	t.Helper()
	root := untyped(t, sample)
	var docs [][]byte
	write := func() {
		data, err := json.Marshal(root)
		if err != nil {
			t.Fatal(err)
		}
		docs = append(docs, data)
	}
	values := []any{secret}
	first := secret == secrets[0]
	if first { // once is enough for those that hold all
		values = append(values, any(secrets), map[string]any{secrets[3]: secrets, secrets[5]: secrets[6]})
	}
	var visit func(v any, replace func(any))
	visit = func(v any, replace func(any)) {
		for _, value := range values {
			replace(value)
			write()
		}
		replace(v)
		switch v := v.(type) {
		case map[string]any:
			v[secret] = secret
			write()
			delete(v, secret)
			for _, key := range slices.Sorted(maps.Keys(v)) {
				item := v[key]
				if first { // a key in place of another is an unknown key as above
					delete(v, key)
					v[secret] = item
					write()
					delete(v, secret)
					v[key] = item
				}
				visit(item, func(other any) { v[key] = other })
			}
		case []any:
			for i, item := range v {
				visit(item, func(other any) { v[i] = other })
			}
		}
	}
	visit(root, func(other any) { root = other })

	quoted, err := json.Marshal(secret)
	if err != nil {
		t.Fatal(err)
	}
	text, member := string(sample), string(quoted)+":"
	for _, broken := range []string{
		secret, string(quoted), text + secret, text + string(quoted), secret + text, "{" + member,
		"{" + member + "1," + member + "2}", `{"a":{` + member + `[1,` + secret, "{" + member + secret + "}", "[" + string(quoted) + "\x01",
		"*" + secret, "&" + secret + " a: b", "!" + secret + " a", secret + ": [", "a: *" + secret, "%" + secret + "\n---\na: b",
	} {
		docs = append(docs, []byte(broken))
	}
	for i := 1; i < len(text); i += 61 {
		docs = append(docs, []byte(text[:i]+secret), []byte(text[:i]+string(quoted)+text[i:]))
	}
	return docs
}

// No key of ours may look like a credential, or its violations could not name it.
func TestOurKeysAreNamed(t *testing.T) {
	for _, k := range kinds {
		for location, s := range objectsOf(k.doc.schema()) {
			for key := range s.Properties {
				if !printableKey(key) {
					t.Errorf("%s of %s would not be named", key, location)
				}
			}
		}
	}
	for key, want := range map[string]bool{
		"dangerouslySkipPermissions": true, "__proto__": true, "a.b-c_d": true, strings.Repeat("a", 64): true, strings.Repeat("a", 65): false,
		"": false, "a b": false, "a/b": false, "a~b": false, "é": false, "\x1b[2J": false, "sk-live-SECRET-4242": false, "0a1b2c3d4e5f6a7b": false, "sk-abcdefghijklmnop": false, "ifMatchSha256": true, "ghost": true, "skip": true,
	} {
		if printableKey(key) != want {
			t.Errorf("%q: named is %v", key, !want)
		}
	}
}
