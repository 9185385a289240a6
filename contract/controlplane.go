package contract

import (
	"bytes"
	"encoding/json"
)

// ControlPlaneSchemas generates the files of schemas/control-plane/v1 from the
// types and constants of this package, by file name. A test compares them byte
// for byte with what is embedded.
func ControlPlaneSchemas() (map[string][]byte, error) {
	event, err := eventSchema().indented()
	if err != nil {
		return nil, err
	}
	return map[string][]byte{"tool-call-event.schema.json": event}, nil
}

// object is a JSON object whose keys keep their order.
type object []member

type member struct {
	key   string
	value any
}

// MarshalJSON writes the members in order.
func (o object) MarshalJSON() ([]byte, error) {
	var b bytes.Buffer
	b.WriteByte('{')
	for i, m := range o {
		if i > 0 {
			b.WriteByte(',')
		}
		key, err := marshal(m.key)
		if err != nil {
			return nil, err
		}
		value, err := marshal(m.value)
		if err != nil {
			return nil, err
		}
		b.Write(key)
		b.WriteByte(':')
		b.Write(value)
	}
	b.WriteByte('}')
	return b.Bytes(), nil
}

// indented is the form of the published file: two spaces, one newline at the end.
func (o object) indented() ([]byte, error) {
	data, err := marshal(o)
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	if err := json.Indent(&b, data, "", "  "); err != nil {
		return nil, err
	}
	b.WriteByte('\n')
	return b.Bytes(), nil
}

// keys returns the keys of o, except those given.
func (o object) keys(except ...string) []string {
	var keys []string
next:
	for _, m := range o {
		for _, key := range except {
			if m.key == key {
				continue next
			}
		}
		keys = append(keys, m.key)
	}
	return keys
}

func described(text string, o object) object {
	return append(object{{"description", text}}, o...)
}

func typed(name any) object { return object{{"type", name}} }

func enum[S ~string](values ...S) object {
	return object{{"type", "string"}, {"enum", values}}
}

func eventSchema() object {
	properties := object{
		{"schema_version", described("The wire version of this document.", object{{"type", "integer"}, {"const", EventVersion}})},
		{"event", described("What the host reported.", enum(PreTool, PostTool, PromptSubmit, SessionStart, UnknownEvent))},
		{"tool", described("The canonical tool name; null for prompts and sessions.", typed([]string{"string", "null"}))},
		{"input", described("The tool's input, verbatim. A prompt is under prompt.", typed("object"))},
		{"response", object{{"description", "What the tool answered; after a tool only. Null is an answer."}}},
		{"this_call_vetoable", described("Whether the host will stop this call when told to.", typed("boolean"))},
		{"meta", object{{"$ref", "#/$defs/EventMeta"}}},
	}
	return object{
		{"$schema", "https://json-schema.org/draft/2020-12/schema"},
		{"title", "ToolCallEvent"},
		{"description", "One hook event of a coding agent, in one form for all agents."},
		{"type", "object"},
		{"properties", properties},
		{"required", properties.keys("response")},
		{"additionalProperties", false},
		{"allOf", []object{
			notVetoable(object{{"event", object{{"const", UnknownEvent}}}}, "event"),
			notVetoable(object{{"meta", object{
				{"properties", object{{"integration_mode", object{{"const", ObserveOnly}}}}},
				{"required", []string{"integration_mode"}},
			}}}, "meta"),
		}},
		{"$defs", object{{"EventMeta", metaSchema()}}},
	}
}

// notVetoable says that a veto must not be claimed when the host will never
// perform it.
func notVetoable(when object, key string) object {
	return object{
		{"if", object{{"properties", when}, {"required", []string{key}}}},
		{"then", object{{"properties", object{{"this_call_vetoable", object{{"const", false}}}}}}},
	}
}

func metaSchema() object {
	properties := object{
		{"agent", described("The agent that reported the event.", typed("string"))},
		{"native_event", described("The host's own name of the event, verbatim.", typed("string"))},
		{"integration_mode", described("How realm is tied into the agent.", enum(ExternalHook, InProcess, ObserveOnly))},
		{"primary_gate_present", described("Whether another gate decides before this one.", typed("boolean"))},
		{"passthrough", described("Native keys that are not modelled, verbatim.", typed("object"))},
		{"native_tool", described("The host's own name of the tool.", typed("string"))},
		{"session_id", typed("string")},
		{"cwd", typed("string")},
		{"permission_mode", typed("string")},
		{"transcript_path", typed("string")},
	}
	return object{
		{"type", "object"},
		{"properties", properties},
		{"required", properties.keys("native_tool", "session_id", "cwd", "permission_mode", "transcript_path")},
		{"additionalProperties", false},
	}
}
