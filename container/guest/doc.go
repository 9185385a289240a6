// Package guest talks to realm-init, the first process of a session's
// container, from the host.
//
// Init dials out to a unix socket in a directory that only its session mounts.
// The host accepts exactly one peer, the container's init process by its pid,
// and takes the socket away: nothing inside the container can reach this
// channel, before or after. Over the link the host has programs run, with the
// ends of pipes passed as descriptors, so that their bytes never go through
// init.
//
// What init sends is untrusted. Frames are bounded, anything unexpected closes
// the link with a [ProtocolError], and an outcome that is not known is
// [ErrLost], never a guess.
package guest
