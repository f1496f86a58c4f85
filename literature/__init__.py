"""Published works: finding them in four public catalogues, and telling which references are true.

    LiteratureError
        LibraryError   you: a .bib file or a folder of papers cannot be read; the message names the line and the mend
        SourceError    nobody: a catalogue gave no usable answer in time; what hung on it stays unverified
"""
