package policy

import "realm.dev/contract"

// Format is how a policy file is written.
type Format string

// The formats.
const (
	FormatJSON Format = "json"
	FormatYAML Format = "yaml"
)

// Load reads a policy document. What its schema cannot say is for Compile.
func Load(data []byte, f Format) (contract.Policy, error) {
	switch f {
	case FormatJSON:
		return contract.Decode[contract.Policy](data)
	case FormatYAML:
		return contract.DecodeYAML(data)
	}
	return contract.Policy{}, contract.Errorf(contract.SchemaInvalid, "a policy is written as json or yaml")
}
