package policy

import "strings"

// splitWords cuts a text as env -S does. ok is false when the words depend on
// the environment (${NAME}) or the text is malformed.
func splitWords(text string) (out []string, ok bool) {
	var word strings.Builder
	inWord, quote := false, byte(0)
	end := func() {
		if inWord {
			out = append(out, word.String())
		}
		word.Reset()
		inWord = false
	}
	for i := 0; i < len(text); i++ {
		c := text[i]
		switch {
		case c == '$' && quote != '\'':
			return nil, false
		case quote != 0 && c == quote:
			quote = 0
		case quote == 0 && (c == '\'' || c == '"'):
			quote, inWord = c, true
		case quote == 0 && strings.IndexByte(" \t\n\v\f\r", c) >= 0:
			end()
		case quote == 0 && c == '#' && !inWord:
			return out, true
		case c == '\\' && i+1 < len(text):
			i++
			switch s, kind := unescape(text[i], quote); kind {
			case escapeBad:
				return nil, false
			case escapeEnd:
				end()
				return out, quote == 0
			case escapeSpace:
				end()
			default:
				word.WriteString(s)
				inWord = true
			}
		case c == '\\':
			return nil, false
		default:
			word.WriteByte(c)
			inWord = true
		}
	}
	end()
	return out, quote == 0
}

type escapeKind uint8

const (
	escapeText  escapeKind = iota
	escapeSpace            // \_ outside of quotes separates words
	escapeEnd              // \c ends the text
	escapeBad
)

// unescape reads the character after a backslash.
func unescape(c, quote byte) (string, escapeKind) {
	if quote == '\'' {
		if c == '\'' || c == '\\' {
			return string(c), escapeText
		}
		return `\` + string(c), escapeText
	}
	switch c {
	case '"', '#', '$', '\'', '\\':
		return string(c), escapeText
	case '_':
		if quote == 0 {
			return "", escapeSpace
		}
		return " ", escapeText
	case 'c':
		if quote == 0 {
			return "", escapeEnd
		}
		return "", escapeBad
	case 'f':
		return "\f", escapeText
	case 'n':
		return "\n", escapeText
	case 'r':
		return "\r", escapeText
	case 't':
		return "\t", escapeText
	case 'v':
		return "\v", escapeText
	}
	return "", escapeBad
}
