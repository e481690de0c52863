package member

// RunJoined is Run of a rank that has joined.
var RunJoined = (*Member).run
