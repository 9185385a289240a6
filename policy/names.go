package policy

import (
	"errors"
	"strings"
)

// checkHome checks the name of a home.
func checkHome(name string) error {
	if name == "" || len(name) > 32 || !isWord(name, "-") || name[0] == '-' {
		return errors.New("must be ephemeral or a name of 1 to 32 characters a-z 0-9 -, not starting with -")
	}
	return nil
}

// isWord reports whether s is made of a-z, 0-9 and the further characters.
func isWord(s, further string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < '0' || r > '9') && !strings.ContainsRune(further, r)
	})
}

// maxEnvName bounds the name of an environment variable.
const maxEnvName = 256

// checkEnv checks the name of a variable that is passed through.
//
// Refused are realm's own; those by which the dynamic loader changes every
// program, because their values are paths of the host; and HOME, which realm
// sets. Sockets that a variable names (SSH_AUTH_SOCK) are not in the session
// whatever is passed, and a person may pass a secret on purpose.
func checkEnv(name string) error {
	switch {
	case name == "":
		return errors.New("must not be empty")
	case len(name) > maxEnvName:
		return errors.New("is longer than 256 bytes")
	case !isWord(strings.ToLower(name), "_") || name[0] >= '0' && name[0] <= '9' || !isASCII(name):
		return errors.New("is not the name of an environment variable: letters, digits and _, not starting with a digit")
	case strings.HasPrefix(strings.ToUpper(name), "REALM_"):
		return errors.New("is a name of realm itself")
	case strings.HasPrefix(name, "LD_"), name == "GLIBC_TUNABLES", name == "GCONV_PATH":
		return errors.New("changes the dynamic loader of every program and is not passed")
	case name == "HOME":
		return errors.New("is set by realm: see home")
	}
	return nil
}
