package contract

import (
	"io/fs"
	"sync"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// What one document may weigh. A control socket reads no more than
// MaxCallBytes from a client; frames that realm sends may hold a result.
const (
	MaxCallBytes   = 24 << 20
	MaxPolicyBytes = 256 << 10
	MaxRecordBytes = 64 << 10
	MaxDetailBytes = 16 << 20
	MaxResultBytes = 128 << 20
	MaxEntryBytes  = 1 << 20
)

// Document is any document that crosses a boundary of realm.
type Document interface {
	Policy | ToolCall | ToolResult | SessionRecord | SessionDetail | Frame | AuditEntry | ToolCallEvent
}

// document is what all values of one kind have in common.
type document struct {
	name   string // of the schema
	limit  int    // bytes
	schema func() *jsonschema.Schema
}

// documentOf compiles nothing yet: a program pays for the schemas that it uses.
func documentOf(name string, limit int) *document {
	return &document{name: name, limit: limit, schema: sync.OnceValue(func() *jsonschema.Schema { return compile(name) })}
}

var (
	policyDocument = documentOf("policy", MaxPolicyBytes)
	callDocument   = documentOf("tool-call", MaxCallBytes)
	resultDocument = documentOf("tool-result", MaxResultBytes)
	recordDocument = documentOf("session-record", MaxRecordBytes)
	detailDocument = documentOf("session-detail", MaxDetailBytes)
	frameDocument  = documentOf("control-message", MaxResultBytes)
	entryDocument  = documentOf("audit-entry", MaxEntryBytes)
	eventDocument  = documentOf("tool-call-event", MaxCallBytes)
)

// kindOf finds the document that T is.
func kindOf[T Document]() *document {
	switch any((*T)(nil)).(type) {
	case *Policy:
		return policyDocument
	case *ToolCall:
		return callDocument
	case *ToolResult:
		return resultDocument
	case *SessionRecord:
		return recordDocument
	case *SessionDetail:
		return detailDocument
	case *Frame:
		return frameDocument
	case *AuditEntry:
		return entryDocument
	}
	return eventDocument
}

// Validate reports how data breaks the named schema and the rules beyond it,
// exactly as Decode would. An unknown name is fs.ErrNotExist.
func Validate(name string, data []byte) error {
	check, ok := map[string]func([]byte) error{
		policyDocument.name: valid[Policy],
		callDocument.name:   valid[ToolCall],
		resultDocument.name: valid[ToolResult],
		recordDocument.name: valid[SessionRecord],
		detailDocument.name: valid[SessionDetail],
		frameDocument.name:  valid[Frame],
		entryDocument.name:  valid[AuditEntry],
		eventDocument.name:  valid[ToolCallEvent],
	}[name]
	if !ok {
		return Errorf(SchemaInvalid, "no schema has this name").WithCause(fs.ErrNotExist)
	}
	return check(data)
}

func valid[T Document](data []byte) error {
	_, err := Decode[T](data)
	return err
}
