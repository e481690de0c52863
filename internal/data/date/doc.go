// Package date parses dates and times as tables contain them, and finds the format of a
// column.
//
//	iso          2014-10-21, 2014-10-21T08:30:15.25+02:00, 2014-10-21 08:30 UTC
//	unix         seconds since 1970; unix_ms, unix_us and unix_ns are finer
//	a pattern    %Y year, %y its last two digits, %m month, %b its English
//	             abbreviation, %d day, %H hour, %I hour of %p (AM or PM), %M minute,
//	             %S second, %f its fraction, %z zone; %% is a percent sign. Any other
//	             character matches itself: %d/%b/%Y:%H:%M:%S %z is Apache's
//
// The result is seconds since 1970 in UTC, rounded down. A date without a zone is in UTC.
// Nothing allocates or panics on data.
package date
