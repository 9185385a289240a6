package contract

import (
	"encoding/base64"
	"math"
	"strings"
)

// The bounds that a schema cannot say, because it counts characters and these
// are bytes.
const (
	MaxPathBytes    = 4096
	MaxContentBytes = 16 << 20 // of write content and stdin, decoded
	MaxScriptBytes  = 1 << 20
	MaxArgBytes     = 128 << 10 // of one argument, or one value of the environment
	MaxSocketPath   = 107
)

// The bounds and defaults of calls that the tools need too; the schema says the
// same.
const (
	MaxReadBytes     = 1 << 20  // also what a read without maxBytes gets
	MaxHashedBytes   = 16 << 20 // a larger file has no sha256
	MaxListDepth     = 64
	DefaultListDepth = 1
	MaxListEntries   = 20000
	MaxMilliseconds  = math.MaxInt64 / 1_000_000 // what a time.Duration holds
)

// The encodings of content.
const (
	UTF8   = "utf8"
	Base64 = "base64"
)

const (
	rulePathBytes    = "has more than 4096 bytes"
	ruleContentBytes = "has more than 16 MiB"
	ruleScriptBytes  = "has more than 1 MiB"
	ruleArgBytes     = "has more than 128 KiB"
	ruleSocketBytes  = "has more than 107 bytes"
)

// DecodeContent returns the bytes of content in encoding: utf8 (also when it is
// empty) or base64.
func DecodeContent(content, encoding string) ([]byte, error) {
	if encoding != Base64 {
		return []byte(content), nil
	}
	data, ok := decodeBase64(content)
	if !ok {
		return nil, faults{{rule: ruleBase64}}.err()
	}
	return data, nil
}

// decodeBase64 is strict: padded, no bits left over, and no line breaks, which
// the library skips.
func decodeBase64(s string) ([]byte, bool) {
	if strings.ContainsAny(s, "\r\n") {
		return nil, false
	}
	data, err := base64.StdEncoding.Strict().DecodeString(s)
	return data, err == nil
}

func checkContent(content, encoding string, key string) (fs faults) {
	size := len(content)
	if encoding == Base64 {
		data, ok := decodeBase64(content)
		if !ok {
			return faults{{path: []string{key}, rule: ruleBase64}}
		}
		size = len(data)
	}
	return checkBytes(nil, size, MaxContentBytes, ruleContentBytes, key)
}

func checkBytes(fs faults, size, limit int, rule string, path ...string) faults {
	if size > limit {
		fs = append(fs, fault{path: path, rule: rule, size: true})
	}
	return fs
}

func (fs faults) below(prefix ...string) faults {
	for i, f := range fs {
		fs[i] = f.at(prefix...)
	}
	return fs
}
