package policy

import (
	"strings"
	"testing"
)

func TestHoldsToken(t *testing.T) {
	for _, test := range []struct {
		name, content string
		want          bool
	}{
		{".npmrc", "", false},
		{".npmrc", "registry=https://r.example/\nsave-exact=true\nalways-auth=true\n", false},
		{".npmrc", "//r.example/:_authToken=${NPM_TOKEN}\n", false},
		{".npmrc", "//r.example/:_authToken=\"${NPM_TOKEN}\"", false},
		{".npmrc", "# //r.example/:_authToken=x\n; _auth=x", false},
		{".npmrc", "//r.example/:certfile=/a.pem\n//r.example/:keyfile=/a.key", false},
		{".npmrc", "//r.example/:_authToken=x", true},
		{".npmrc", "//r.example/:_authToken = x\r", true},
		{".npmrc", "a=b\r//r.example/:_authToken=x", true},
		{".npmrc", "\ufeff_auth=eA==", true},
		{".npmrc", `"//r.example/:_authToken" = "x"`, true},
		{".npmrc", "//r.example/:_PASSWORD=x", true},
		{".npmrc", "//r.example/:_authToken=x${Y}", true},
		{".npmrc", "key=-----BEGIN", true},
		{".npmrc", "registry=https://u:p@r.example/", true},
		{".npmrc", "registry=https://token@r.example/", true},
		{".npmrc", "registry=https://u:${P}@r.example/", false},
		{"a/b/.NPMRC", "_auth=x", true},
		{".pypirc", "[pypi]\nusername = __token__\n", false},
		{".pypirc", "[pypi]\npassword =\n", false},
		{".pypirc", "[pypi]\npassword = x\n", true},
		{".pypirc", "[pypi]\npassword: x\n", true},
		{".pypirc", "[pypi]\npassword =\n  x\n", true},
		{".pypirc", "[pypi]\nrepository: https://r.example/\n", false},
		{".npmrc", "a\x00b", true},
		{".npmrc", strings.Repeat("a", TokenFileMax+1), true},
	} {
		if got := HoldsToken(test.name, []byte(test.content)); got != test.want {
			t.Errorf("%s %.60q: %t", test.name, test.content, got)
		}
	}
	for name, want := range map[string]bool{".npmrc": true, "a/.PyPIrc": true, "npmrc": false, ".npmrc/x": false, "": false} {
		if TokenFile(name) != want {
			t.Errorf("%q: %t", name, !want)
		}
	}
}

// FuzzHoldsToken: a token that is put into any file is found.
func FuzzHoldsToken(f *testing.F) {
	f.Add("a=b\n", "c=d")
	f.Add("[x]\r", "password:")
	f.Fuzz(func(t *testing.T, before, after string) {
		for name, line := range map[string]string{".npmrc": "//r.example/:_authToken=x", ".pypirc": "password = x"} {
			if !HoldsToken(name, []byte(before+"\n"+line+"\n"+after)) {
				t.Errorf("%s: the token between %q and %q is not found", name, before, after)
			}
		}
	})
}
