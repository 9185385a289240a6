package policy

import (
	"bytes"
	"path"
	"regexp"
	"strings"
)

// TokenFileMax is how much of a file HoldsToken needs to see. A larger one
// counts as holding a token.
const TokenFileMax = 64 << 10

// TokenFile reports whether a name is hidden only when its content holds a token.
func TokenFile(rel string) bool { return tokenFileName(rel) != "" }

func tokenFileName(rel string) string {
	switch base := strings.ToLower(path.Base(rel)); base {
	case ".npmrc", ".pypirc":
		return base
	}
	return ""
}

// variable is a value that only names a variable, as npm reads it.
var variable = regexp.MustCompile(`^\$\{[A-Za-z_][A-Za-z0-9_]*\??\}$`)

// userinfo is the part of a URL that names a user, with a password or a token.
var userinfo = regexp.MustCompile(`://([^/\s@]+)@`)

// HoldsToken reports whether the content of a TokenFile holds a secret: a
// token, a password or a key with a value, or a password in a URL. What cannot
// be read line by line counts as one.
func HoldsToken(name string, content []byte) bool {
	if len(content) > TokenFileMax || bytes.IndexByte(content, 0) >= 0 {
		return true
	}
	content = bytes.TrimPrefix(content, []byte("\ufeff"))
	pending := false // a secret's key whose value may follow on the next line
	for _, line := range strings.FieldsFunc(string(content), func(r rune) bool { return r == '\n' || r == '\r' }) {
		text := strings.TrimSpace(line)
		if text == "" || text[0] == '#' || text[0] == ';' {
			continue
		}
		if indented := line[0] == ' ' || line[0] == '\t'; pending && indented && !isReference(text) {
			return true
		}
		key, value := splitSetting(tokenFileName(name), text)
		value = strings.Trim(strings.TrimSpace(value), `"'`)
		secret := isSecretKey(key)
		if secret && value != "" && !isReference(value) || hasUserinfo(text) {
			return true
		}
		pending = secret && value == ""
	}
	return false
}

func isReference(value string) bool { return variable.MatchString(value) }

// hasUserinfo reports whether a URL in text has a user part that is not only a
// variable: registries take a token as the user too.
func hasUserinfo(text string) bool {
	for _, m := range userinfo.FindAllStringSubmatch(text, -1) {
		if _, password, ok := strings.Cut(m[1], ":"); ok && isReference(password) || isReference(m[1]) {
			continue
		}
		return true
	}
	return false
}

// splitSetting cuts a line at its delimiter: `=`, and in .pypirc also `:`. The
// key of an .npmrc may hold colons (//host/:_authToken).
func splitSetting(kind, text string) (key, value string) {
	delimiters := "="
	if kind == ".pypirc" {
		delimiters = "=:"
	}
	if i := strings.IndexAny(text, delimiters); i >= 0 {
		return text[:i], text[i+1:]
	}
	return text, ""
}

// isSecretKey reports whether a setting holds a secret: the part after the last
// colon, without quotes and [].
func isSecretKey(key string) bool {
	key = key[strings.LastIndexByte(key, ':')+1:]
	key = strings.ToLower(strings.Trim(strings.TrimSpace(key), `"'[] `))
	if key == "key" {
		return true
	}
	for _, suffix := range []string{"_auth", "token", "password", "secret", "passwd"} {
		if strings.HasSuffix(key, suffix) {
			return true
		}
	}
	return false
}
