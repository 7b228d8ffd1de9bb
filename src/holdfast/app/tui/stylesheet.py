"""The dashboard's layout, in the terminal's own colours."""

STYLESHEET = """
Screen { layout: vertical; overflow: hidden; }
#head, #heading, #keys { height: 1; width: 100%; }
#message { height: auto; min-height: 1; padding: 0 1; }
#heading { text-style: dim; }
#filter { display: none; height: 1; padding: 0 1; }
Pane {
    overflow-x: hidden; overflow-y: auto; scrollbar-size: 0 1; scrollbar-gutter: stable;
    scrollbar-color: ansi_bright_black; scrollbar-color-hover: ansi_white; scrollbar-color-active: ansi_white;
    scrollbar-background: ansi_default; scrollbar-background-hover: ansi_default;
    scrollbar-background-active: ansi_default;
}
#runs { height: auto; min-height: 2; max-height: 35%; }
#lower { height: 1fr; }
#run, #log { border-top: solid ansi_bright_black; border-title-style: bold; }
#run:focus, #log:focus { border-top: heavy ansi_cyan; }
.-narrow #run { height: 2fr; }
.-narrow #log { height: 1fr; }
.-wide #lower { layout: horizontal; }
.-wide #run, .-wide #log { width: 1fr; height: 100%; }
QuestionDialog { align: center middle; background: transparent; }
#dialog {
    width: 90%; max-width: 90; height: auto; max-height: 90%;
    border: round ansi_yellow; padding: 0 1; background: ansi_default;
}
#dialog Static { height: auto; width: 100%; }
#dialog Input { margin: 1 0; }
"""
