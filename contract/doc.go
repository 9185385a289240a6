// Package contract holds every document that crosses a boundary of realm: the
// policy, the tool call and its result, the session record and detail, the
// frames of the control socket, the journal's lines, and the error catalogue.
//
// The JSON Schemas under schemas/v1 are the source of truth. The Go types here
// mirror them by hand; a drift test walks both. Decode is the only way in, for
// every document, and bytes are parsed once.
package contract
